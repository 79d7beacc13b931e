from hypothesis import given
from hypothesis import strategies as st

from agent.store.content_keys import content_key, source_key
from agent.store.download_plan import DownloadPlan
from shared.manifest import File, Manifest

A = File("a", 3, "sha256:" + "0" * 64)


def test_revisions_of_one_repository_share_a_source_key() -> None:
    assert source_key("hf://org/repo@main") == source_key("hf://org/repo@0123abc")


def test_uris_of_different_places_have_different_source_keys() -> None:
    uris = ["hf://org/repo@main", "hf://org/other@main", "s3://buck/org/repo", "https://host/org/repo", "odd"]
    assert len({source_key(uri) for uri in uris}) == len(uris)


def test_equal_digests_from_different_sources_have_different_content_keys() -> None:
    assert content_key("hf://a/b", "r", A) != content_key("hf://a/c", "r", A)


def test_a_content_key_with_a_digest_ignores_path_revision_and_etag() -> None:
    moved = File("b", 3, A.digest, "etag")
    assert content_key("s", "r1", A) == content_key("s", "r2", moved)


def test_a_content_key_does_not_rely_on_a_short_checksum() -> None:
    file = File("a", 3, "crc32:00000000", "e1")
    assert content_key("s", "r1", file) == content_key("s", "r2", file)
    assert content_key("s", "r1", file) != content_key("s", "r1", File("a", 3, file.digest, "e2"))
    assert content_key("s", "r1", file) != content_key("s", "r1", File("b", 3, file.digest, "e1"))


def test_a_digest_of_parts_identifies_content_unless_its_checksum_is_short() -> None:
    one, other = File("a", 3, "md5-parts:00-2-2", "e1"), File("b", 3, "md5-parts:00-2-2", "e2")
    assert content_key("s", "r1", one) == content_key("s", "r2", other)
    assert content_key("s", "r1", one) != content_key("s", "r1", File("a", 3, "md5-parts:00-3-1", "e1"))
    short, moved = File("a", 3, "crc32-parts:00-2-2", "e1"), File("b", 3, "crc32-parts:00-2-2", "e1")
    assert content_key("s", "r1", short) != content_key("s", "r1", moved)
    assert content_key("s", "r1", short) == content_key("s", "r1", File("a", 3, "", "e1"))


def test_without_a_digest_the_content_key_depends_on_path_and_etag() -> None:
    file = File("a", 3, "", "e1")
    assert content_key("s", "r1", file) == content_key("s", "r2", file)
    assert content_key("s", "r1", file) != content_key("s", "r1", File("a", 3, "", "e2"))
    assert content_key("s", "r1", file) != content_key("s", "r1", File("b", 3, "", "e1"))


def test_without_digest_and_etag_the_content_key_depends_on_the_revision() -> None:
    assert content_key("s", "r1", File("a", 3)) != content_key("s", "r2", File("a", 3))


@given(st.text(), st.text(), st.text(), st.text())
def test_no_combination_of_path_and_etag_makes_two_content_keys_collide(
    path: str, etag: str, other_path: str, other_etag: str
) -> None:
    same = (path, etag) == (other_path, other_etag)
    one = content_key("s", "r", File(path.replace("\0", ""), 1, "", etag.replace("\0", "") or "e"))
    two = content_key("s", "r", File(other_path.replace("\0", ""), 1, "", other_etag.replace("\0", "") or "e"))
    cleaned = (path.replace("\0", ""), etag.replace("\0", "") or "e")
    other = (other_path.replace("\0", ""), other_etag.replace("\0", "") or "e")
    assert (one == two) == (cleaned == other)
    assert not same or one == two


def test_content_at_two_paths_is_downloaded_once() -> None:
    twin = File("z", 3, A.digest)
    manifest = Manifest("hf://a/b@main", "r", (A, File("m", 1), twin))
    assert [f.path for f in DownloadPlan(manifest).contents().values()] == ["a", "m"]
    keys = DownloadPlan(manifest).keys
    assert keys["a"] == keys["z"] != keys["m"]
