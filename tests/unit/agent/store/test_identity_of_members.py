from agent.store.content_keys import belongs_to, content_key, members_manifest
from agent.store.download_plan import DownloadPlan
from shared.manifest import File, Manifest

ARCHIVE = content_key("hf://org/repo", "r", File("m.tar", 9, "sha256:" + "0" * 64))


def test_members_of_an_archive_are_named_after_it() -> None:
    keys = DownloadPlan(members_manifest(ARCHIVE, [File("a", 1), File("b", 1), File("d/a", 1)])).contents()
    assert len(keys) == 3
    assert all(belongs_to(key, {ARCHIVE}) and belongs_to(key, {key}) for key in keys)
    assert not any(belongs_to(key, {"0" * 64}) for key in keys)


def test_contents_of_members_differ_from_those_of_the_source_itself() -> None:
    members = DownloadPlan(members_manifest(ARCHIVE, [File("a", 1)])).contents()
    beside = DownloadPlan(Manifest("hf://org/repo@r", "", (File("a", 1),))).contents()
    assert members.keys().isdisjoint(beside)


def test_an_archive_in_an_archive_is_named_as_any_file() -> None:
    [key] = DownloadPlan(members_manifest(ARCHIVE, [File("inner.tar", 1)])).contents()
    assert belongs_to(key, {ARCHIVE})
