import hashlib
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import TooManyFiles, UnsafePath
from shared.manifest import File, Manifest, build_manifest, decode_manifest

files = st.lists(
    st.builds(
        File,
        path=st.text("abc/", min_size=1, max_size=6).filter(lambda p: all(p.split("/"))),
        size=st.integers(0, 2**50),
        digest=st.sampled_from(["", "sha256:" + "a" * 64, "git-sha1:" + "b" * 40, "md5:" + "c" * 32]),
    ),
    unique_by=lambda f: f.path,
    max_size=5,
)


def built(found: list[File], revision: str = "") -> Manifest | None:
    try:
        return build_manifest("s3://bucket/m", revision, found)
    except UnsafePath:  # a file that is also a directory
        return None


@given(files, st.randoms())
def test_the_encoding_does_not_depend_on_the_order_of_the_files(found: list[File], chance: Random) -> None:
    one, shuffled = built(found), list(found)
    chance.shuffle(shuffled)
    other = built(shuffled)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one.encode() == other.encode()
        assert one.digest == hashlib.sha256(one.encode()).hexdigest()
        assert decode_manifest(one.encode(), one.digest) == one
        assert one.size_bytes == sum(f.size for f in found)


def test_without_a_revision_the_name_depends_on_every_field_of_the_files() -> None:
    first = File("a", 1, "sha256:" + "a" * 64, '"etag"')
    revisions = {
        m.revision
        for m in (
            built([first]),
            built([msgspec.structs.replace(first, size=2)]),
            built([msgspec.structs.replace(first, path="b")]),
            built([msgspec.structs.replace(first, digest="")]),
            built([msgspec.structs.replace(first, etag="")]),
            build_manifest("s3://bucket/other", "", [first]),
        )
        if m is not None
    }
    assert len(revisions) == 6
    assert all(len(r) == 40 for r in revisions)


def test_a_manifest_with_another_digest_is_refused() -> None:
    manifest = build_manifest("hf://o/m@c", "c", [File("a", 1)])
    with pytest.raises(ValueError, match="does not have the digest"):
        decode_manifest(manifest.encode() + b" ", manifest.digest)


@pytest.mark.parametrize("revision", ["../x", "a/b", ".", "..", ".hidden"])
def test_a_revision_that_is_not_a_directory_name_is_refused(revision: str) -> None:
    body = Manifest("hf://o/m", revision, ()).encode()
    with pytest.raises(UnsafePath):
        decode_manifest(body, hashlib.sha256(body).hexdigest())


@pytest.mark.parametrize("path", ["../x", "/x", ".completed"])
def test_an_unsafe_path_is_refused_when_building_and_when_decoding(path: str) -> None:
    body = Manifest("hf://o/m", "c", (File(path, 1),)).encode()
    with pytest.raises(UnsafePath):
        decode_manifest(body, hashlib.sha256(body).hexdigest())
    with pytest.raises(UnsafePath):
        build_manifest("hf://o/m", "c", [File(path, 1)])


def test_sizes_that_no_disk_has_are_refused() -> None:
    with pytest.raises(TooManyFiles, match="more than any disk"):
        build_manifest("oci://r.test/m:1", "r", [File(name, 2**61) for name in "abc"])


def test_only_manifests_with_an_archive_mention_its_format() -> None:
    plain = build_manifest("s3://bucket/m", "r", [File("a", 1)])
    assert b"archive" not in plain.encode()
    packed = build_manifest("s3://bucket/m", "r", [File("a", 1, archive="tar")])
    assert packed.digest != plain.digest
    assert decode_manifest(packed.encode(), packed.digest) == packed
    without_revision = {built([File("a", 1, archive=form)]) for form in ("", "tar", "tar.gz")}
    assert len({m.revision for m in without_revision if m}) == 3


def test_an_unknown_archive_format_in_a_manifest_is_decoded() -> None:
    packed = build_manifest("s3://bucket/m", "r", [File("a", 1, archive="later")])
    assert decode_manifest(packed.encode(), packed.digest).files == packed.files


def test_the_path_of_an_archive_must_be_safe_and_unique() -> None:
    archive = File("d", 1, archive="tar")
    together = [archive, File("d/e", 1), File("d/e/f", 1, archive="tar")]
    assert build_manifest("s3://bucket/m", "r", together).files == tuple(together)
    for bad in ([archive, File("d", 1)], [File("../d", 1, archive="tar")], [File("e", 1), File("e/f", 1)]):
        with pytest.raises(UnsafePath):
            build_manifest("s3://bucket/m", "r", bad)
