"""What `.completed` records about archives, and its compatibility with versions that support only one."""

from pathlib import Path

import msgspec
import pytest

from agent.store.layout import Layout
from agent.store.snapshot import ArchiveContents, Completed, CompletedFile, completed_of, content_keys, read_snapshot
from shared.manifest import File, Manifest

SHA = {name: f"{number:x}" * 64 for number, name in enumerate(("config.json", "a.tar", "b.tar", "a", "b"))}
MEMBERS = {name: CompletedFile(name, 1, SHA[name]) for name in ("a", "b")}
ARCHIVES = {name: CompletedFile(name, 9, SHA[name], f"sha256:{SHA[name]}") for name in ("a.tar", "b.tar")}
CONFIG = CompletedFile("config.json", 2, SHA["config.json"], f"sha256:{SHA['config.json']}")
ONE = ArchiveContents(ARCHIVES["a.tar"], (MEMBERS["a"],))
TWO = ArchiveContents(ARCHIVES["b.tar"], (MEMBERS["b"],))
# The format before a model could have several archives.
OLD = (
    b'{"id":"m","revision":"r","uri":"hf://o/m@r","manifest":"d","files":[{"path":"a","size":1,"sha256":"%s"}],'
    b'"archive":{"path":"a.tar","size":9,"sha256":"%s","digest":"sha256:%s"}}'
) % (SHA["a"].encode(), SHA["a.tar"].encode(), SHA["a.tar"].encode())


def manifest(*files: CompletedFile) -> Manifest:
    return Manifest("hf://o/m@r", "r", tuple(File(f.path, f.size, f.digest) for f in files))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = Layout(tmp_path).snapshot("m", "r")
    path.mkdir(parents=True)
    return path


def written(place: Path, mark: bytes) -> Path:
    (place / ".completed").write_bytes(mark)
    return place


def test_a_mark_in_the_old_format_is_read(tmp_path: Path, place: Path) -> None:
    snapshot = read_snapshot(Layout(tmp_path), written(place, OLD))
    assert snapshot is not None
    assert snapshot.unpacked == (ONE,)
    assert snapshot.fetched == ()
    assert snapshot.verified == "digest"


def test_a_single_archive_is_still_written_in_the_old_format() -> None:
    mark = completed_of(manifest(ARCHIVES["a.tar"]), "m", {}, (ONE,))
    assert msgspec.structs.replace(mark, manifest="d").encode() == OLD


def test_several_archives_and_a_file_beside_them_are_read_back_as_written(tmp_path: Path, place: Path) -> None:
    mark = completed_of(manifest(*ARCHIVES.values(), CONFIG), "m", {"config.json": CONFIG.sha256}, (ONE, TWO))
    snapshot = read_snapshot(Layout(tmp_path), written(place, mark.encode()))
    assert snapshot is not None
    assert [f.path for f in snapshot.files] == ["a", "b", "config.json"]
    assert snapshot.unpacked == (ONE, TWO)
    assert snapshot.fetched == (CONFIG,)
    assert snapshot.verified == "digest"
    keys = content_keys(snapshot)
    assert len(set(keys.values())) == 3
    assert ["-" in keys[path] for path in ("a", "b", "config.json")] == [True, True, False]


def test_a_single_archive_and_the_file_beside_it_are_distinguished(tmp_path: Path, place: Path) -> None:
    mark = completed_of(manifest(ARCHIVES["a.tar"], CONFIG), "m", {"config.json": CONFIG.sha256}, (ONE,))
    snapshot = read_snapshot(Layout(tmp_path), written(place, mark.encode()))
    assert snapshot is not None
    assert (snapshot.unpacked, snapshot.fetched) == ((ONE,), (CONFIG,))


def test_an_older_version_reads_the_files_of_several_archives() -> None:
    class Old(msgspec.Struct):
        files: tuple[CompletedFile, ...]
        archive: CompletedFile | None = None

    mark = completed_of(manifest(*ARCHIVES.values()), "m", {}, (ONE, TWO))
    assert msgspec.json.decode(mark.encode(), type=Old).files == (MEMBERS["a"], MEMBERS["b"])


def test_a_mark_that_lacks_a_file_of_an_archive_is_invalid(tmp_path: Path, place: Path) -> None:
    mark = completed_of(manifest(*ARCHIVES.values()), "m", {}, (ONE, TWO))
    assert read_snapshot(Layout(tmp_path), written(place, mark.encode())) is not None
    torn = msgspec.structs.replace(mark, files=mark.files[:1]).encode()
    assert msgspec.json.decode(torn, type=Completed).archives
    assert read_snapshot(Layout(tmp_path), written(place, torn)) is None


@pytest.mark.parametrize("damaged", [b"", b"\0" * len(OLD), OLD[:-1], OLD.replace(b'"hf:', b'"\xff\xfe:')])
def test_a_damaged_mark_is_invalid(tmp_path: Path, place: Path, damaged: bytes) -> None:
    """An error would hide all other models of the node, too."""
    assert read_snapshot(Layout(tmp_path), written(place, damaged)) is None


def test_a_snapshot_with_one_archive_without_a_digest_is_verified_by_size(tmp_path: Path, place: Path) -> None:
    bare = ArchiveContents(msgspec.structs.replace(ARCHIVES["b.tar"], digest=""), TWO.files)
    mark = completed_of(manifest(*ARCHIVES.values()), "m", {}, (ONE, bare))
    snapshot = read_snapshot(Layout(tmp_path), written(place, mark.encode()))
    assert snapshot is not None
    assert snapshot.verified == "size"
