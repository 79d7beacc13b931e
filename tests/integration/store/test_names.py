"""File names that file systems or people confuse, and names of maximum length."""

from collections.abc import Callable

import pytest

from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.store.tree import remove_tree
from agent.transfer.engine import FetchResult
from shared.errors import UnsafePath
from shared.manifest import File, Manifest, decode_manifest
from shared.sources.memory import MemorySource
from tests.builders.file_names import DECOMPOSED, FILES, LONGEST
from tests.builders.stores import plan_of


def test_files_with_unusual_names_are_stored_repaired_and_removed(
    fetch_model: Callable[[MemorySource, Store, str], Snapshot], fetch_blobs: Callable[..., FetchResult], store: Store
) -> None:
    source = MemorySource(FILES)
    snapshot = fetch_model(source, store, "llama")
    assert {f.path: (snapshot.path / f.path).read_bytes() for f in snapshot.files} == FILES
    snapshot.path.chmod(0o755)
    for path in (LONGEST, DECOMPOSED, "Config.json"):
        remove_tree(snapshot.path / path)
    assert sorted(store.snapshots.check(snapshot)) == sorted([LONGEST, DECOMPOSED, "Config.json"])
    repaired = store.snapshots.repair(snapshot, plan_of(source), fetch_blobs(source, store).blobs)
    assert {f.path: (repaired.path / f.path).read_bytes() for f in repaired.files} == FILES
    store.snapshots.remove("llama", snapshot.revision)
    assert store.blobs.paths() == {}


@pytest.mark.parametrize("path", ["n" * 256, "\u00e9" * 128, "a/../b", "/a", "a\0b", "a//b", "a\\b"])
def test_an_unsafe_or_overlong_name_is_refused_before_anything_is_written(
    path: str, fetch_model: Callable[[MemorySource, Store, str], Snapshot], store: Store
) -> None:
    with pytest.raises(UnsafePath):
        fetch_model(MemorySource({path: b"x"}), store, "llama")
    assert store.snapshots.all() == []
    assert store.blobs.paths() == {}


@pytest.mark.parametrize("paths", [["a", "a/b"], ["a/b/c", "a/b"], ["a", "a/b/c"]])
def test_a_file_that_is_also_a_directory_is_refused_before_anything_is_written(
    paths: list[str], fetch_model: Callable[[MemorySource, Store, str], Snapshot], store: Store
) -> None:
    with pytest.raises(UnsafePath, match="as a directory"):
        fetch_model(MemorySource(dict.fromkeys(paths, b"x")), store, "llama")
    listed = Manifest("hf://test/model@r1", "r1", tuple(File(path, 1) for path in paths))
    with pytest.raises(UnsafePath, match="as a directory"):
        decode_manifest(listed.encode(), listed.digest)  # as nodes get it from the controller
    assert store.snapshots.all() == []
    assert store.blobs.paths() == {}
