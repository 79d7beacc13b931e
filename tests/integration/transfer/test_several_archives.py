"""Models of several archives with files beside them, through the engine and the store."""

import os
import random
import re
import tarfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from agent.store.disk import RealDisk
from agent.store.download_plan import DownloadPlan
from agent.store.scrub import Scrubber, ScrubFigures
from agent.store.snapshot import Completed, CompletedFile, Snapshot
from agent.store.store import Store
from agent.transfer.engine import FetchResult
from agent.transfer.progress import Progress
from agent.transfer.receive import Stopped
from rig.processes import wait_until
from shared.errors import DigestMismatch, InsufficientStorage, InvalidURI, LarderError, TooManyFiles, UnsafePath
from shared.manifest import Manifest
from shared.sources.memory import MemorySource
from tests.builders.archives import member, tar, tar_gz
from tests.builders.refused_archives import REFUSED
from tests.builders.stores import plan_of
from tests.integration.store.rot import flip_a_bit
from tests.integration.transfer.unpacking import assert_nothing_but, content, fetch_two_at_a_time

FetchBlobs = Callable[..., FetchResult]
FetchModel = Callable[..., Snapshot]
SOON_S = 60.0
BIG = random.Random(11).randbytes(5 * 2**20 + 1)
CONFIG = {"config.json": b"{}"}
WEIGHTS = {"weights/1.safetensors": BIG, "weights/empty": b""}
CODE = {"code/a.py": b"a = 1", "code/b.py": b"b = 2", "code/big": BIG[:2_000_000]}
FILES = {**CONFIG, **WEIGHTS, **CODE}
FORMS = {"weights": "tar", "code": "tar.gz"}


_CROWDS = {
    "clash": ({"a": b"1", "b": b"2"}, {"a": b"3", "c": b"4"}),
    "number": tuple({f"{side}{number}/{'d/' * 500}x": b"" for number in range(21)} for side in "ab"),
}


def packed(
    weights: Mapping[str, bytes] = WEIGHTS, code: Mapping[str, bytes] = CODE, beside: Mapping[str, bytes] = CONFIG
) -> MemorySource:
    """Return a source like a ModelPack: a tar, a tar.gz, and plain files."""
    return MemorySource({"weights": tar(weights), "code": tar_gz(code), **beside}, archives=FORMS)


def refusal(source: MemorySource, fetch_model: FetchModel, store: Store) -> LarderError:
    """Return why the model is refused; only its downloaded files are kept."""
    with pytest.raises(LarderError) as raised:
        fetch_model(source, store)
    assert store.snapshots.all() == []
    assert not list(store.root.glob("partial/*-*"))
    assert set(store.blobs.paths()) <= {f.digest.removeprefix("sha256:") for f in source.resolve().files}
    store.unfinished.discard(plan_of(source))
    assert store.blobs.paths() == {}
    return raised.value


def test_all_archives_are_unpacked_into_one_directory(fetch_model: FetchModel, store: Store, root: Path) -> None:
    source = packed()
    snapshot = fetch_model(source, store)
    assert content(snapshot) == FILES
    assert snapshot.verified == "digest"
    assert snapshot.manifest_digest == source.resolve().digest
    assert [(one.archive.path, [f.path for f in one.files]) for one in snapshot.unpacked] == [
        ("code", sorted(CODE)),
        ("weights", sorted(WEIGHTS)),
    ]
    assert_nothing_but(root, snapshot)


def test_progress_ends_at_the_total(fetch_blobs: FetchBlobs, store: Store) -> None:
    progress = Progress()
    fetch_blobs(packed(), store, progress=progress)
    assert progress.done == progress.total >= sum(map(len, FILES.values()))


def test_a_single_archive_without_an_archive_suffix_is_unpacked(fetch_model: FetchModel, store: Store) -> None:
    assert content(fetch_model(MemorySource({"weights": tar(WEIGHTS)}, archives=FORMS), store)) == WEIGHTS


def test_a_directory_may_have_the_name_of_its_archive(fetch_model: FetchModel, store: Store) -> None:
    source = packed(beside={"weights/config.json": b"{}", "code/c.py": b""})
    assert content(fetch_model(source, store)) == {**WEIGHTS, **CODE, "weights/config.json": b"{}", "code/c.py": b""}


def test_an_archive_that_arrives_with_other_bytes_is_not_unpacked(fetch_model: FetchModel, store: Store) -> None:
    source = packed()
    source.faults.corrupt.add("code")
    with pytest.raises(DigestMismatch, match="code"):
        fetch_model(source, store)
    assert store.snapshots.all() == []
    assert not list(store.root.glob("partial/*-*"))
    source.faults.corrupt.clear()
    assert content(fetch_model(source, store)) == FILES


class TestRefusal:
    def test_two_archives_with_the_same_path_are_refused_with_both_named(
        self, fetch_model: FetchModel, store: Store
    ) -> None:
        why = refusal(packed(code={**CODE, "weights/empty": b"x"}), fetch_model, store)
        assert isinstance(why, UnsafePath)
        assert "'weights/empty' in 'code' and the file 'weights/empty' in 'weights'" in str(why)

    def test_a_member_that_conflicts_with_a_file_beside_the_archives_is_refused(
        self, fetch_model: FetchModel, store: Store
    ) -> None:
        why = refusal(packed(code={**CODE, "config.json": b"x"}), fetch_model, store)
        assert isinstance(why, UnsafePath)
        assert "'config.json' outside the archives and the file 'config.json' in 'code'" in str(why)

    def test_two_archives_with_the_same_content_are_refused(self, fetch_model: FetchModel, store: Store) -> None:
        twice = MemorySource({"weights": tar(CODE), "code": tar(CODE)}, archives={"weights": "tar", "code": "tar"})
        assert "'code/a.py' in 'code' and the file 'code/a.py' in 'weights'" in str(refusal(twice, fetch_model, store))

    @pytest.mark.parametrize("case", [name for name, (path, *_) in REFUSED.items() if path == "m.tar"])
    def test_a_model_with_one_hostile_archive_is_refused(
        self, case: str, fetch_model: FetchModel, store: Store
    ) -> None:
        _, body, reason, phrase = REFUSED[case]
        source = MemorySource({"weights": tar(WEIGHTS), "code": body}, archives={"weights": "tar", "code": "tar"})
        why = refusal(source, fetch_model, store)
        assert why.reason == reason
        assert phrase in str(why)
        assert str(why).startswith("'code': ")

    def test_a_link_from_one_archive_into_another_is_refused(self, fetch_model: FetchModel, store: Store) -> None:
        link = tar(CODE, member("link", tarfile.SYMTYPE, "weights/empty"))
        source = MemorySource({"weights": tar(WEIGHTS), "code": link}, archives={"weights": "tar", "code": "tar"})
        assert "points to no file" in str(refusal(source, fetch_model, store))

    def test_the_member_limit_applies_to_all_archives_together(self, fetch_model: FetchModel, store: Store) -> None:
        many = [{f"{side}/{number}": b"" for number in range(10_001)} for side in "ab"]
        why = refusal(packed(many[0], many[1]), fetch_model, store)
        assert isinstance(why, TooManyFiles)
        assert "the archives have more than 20000 members" in str(why)

    @pytest.mark.parametrize(
        ("case", "known"),
        [("clash", ()), ("clash", ("code",)), ("clash", ("code", "weights")), ("number", ()), ("number", ("code",))],
    )
    def test_the_refusal_is_the_same_whichever_archives_are_already_stored(
        self, case: str, known: tuple[str, ...], fetch_model: FetchModel, store: Store
    ) -> None:
        packed_by_name = {"code": tar(_CROWDS[case][0]), "weights": tar(_CROWDS[case][1])}
        forms = {"weights": "tar", "code": "tar"}
        for name in known:
            fetch_model(MemorySource({name: packed_by_name[name]}, archives=forms), store, name)
        with pytest.raises(UnsafePath if case == "clash" else TooManyFiles) as raised:
            fetch_model(MemorySource(packed_by_name, archives=forms), store)
        phrase = "in 'code' and the file 'a' in 'weights'" if case == "clash" else "the archives have more than 20000"
        assert re.search(phrase, str(raised.value))
        assert sorted(snapshot.id for snapshot in store.snapshots.all()) == sorted(known)

    def test_an_unknown_archive_format_is_refused(self, fetch_model: FetchModel, store: Store) -> None:
        source = MemorySource({"w": b"packed", **CONFIG}, archives={"w": "tar.zst"})
        why = refusal(source, fetch_model, store)
        assert isinstance(why, InvalidURI)
        assert "'tar.zst', which this version cannot unpack" in str(why)


class TestRoom:
    def test_a_bomb_in_two_parts_is_not_read_beyond_the_available_space(
        self, fetch_model: FetchModel, store: Store
    ) -> None:
        """Each part would fit alone, and the store never exceeds its limit."""
        halves = [{f"{side}{number}": bytes(10_000_000) for number in range(2)} for side in "ab"]
        source = MemorySource({"a": tar_gz(halves[0]), "b": tar_gz(halves[1])}, archives={"a": "tar.gz", "b": "tar.gz"})
        store.space.reserve("llama", source.resolve().size_bytes, 30_000_000, 0)
        with pytest.raises(InsufficientStorage, match=r"'a' and 1 more archives .* unpack to 28.6 MiB or more"):
            fetch_model(source, store, reservation="llama")
        assert store.blobs.paths() == {}
        assert store.space.missing_bytes(plan_of(source)) >= 30_000_000 + source.resolve().size_bytes

    def test_an_exact_fit_is_accepted_and_one_byte_less_is_not(
        self, fetch_model: FetchModel, store: Store, root: Path
    ) -> None:
        source = packed()
        manifest = source.resolve()
        limit = store.space.used_bytes() + manifest.size_bytes + len(BIG) + 2_000_000
        store.space.reserve("llama", store.space.missing_bytes(DownloadPlan(manifest)), limit, 0)
        with pytest.raises(InsufficientStorage, match="raise storageLimit"):
            fetch_model(source, store, reservation="llama")
        store.space.release("llama")
        assert set(store.blobs.paths()) == {f.digest.removeprefix("sha256:") for f in manifest.files if not f.archive}

        plan = DownloadPlan(manifest)
        need = store.space.missing_bytes(plan) + store.space.overhead_bytes(plan, "llama")
        limit = store.space.used_bytes() + need
        with pytest.raises(InsufficientStorage, match=f"need {need} bytes.*have {need - 1} bytes"):
            store.space.reserve("llama", need, limit - 1, 0)
        store.space.reserve("llama", need, limit, 0)
        snapshot = fetch_model(source, store, reservation="llama")
        store.space.release("llama")
        assert_nothing_but(root, snapshot)
        assert store.space.used_bytes() <= limit - len(source.files["weights"])


class TestAfterwards:
    def test_only_the_archive_of_a_damaged_member_is_fetched(
        self, fetch_model: FetchModel, fetch_blobs: FetchBlobs, store: Store, root: Path
    ) -> None:
        source = packed()
        snapshot = fetch_model(source, store)
        inodes = {f.path: (snapshot.path / f.path).stat().st_ino for f in snapshot.files}
        flip_a_bit(snapshot.path / "code/big")
        scrub = Scrubber(store, 2**40, 0, ScrubFigures(), lambda: None, threading.Event())
        assert scrub.read_pass()
        assert store.snapshots.check(snapshot) == ["code/big"]
        assert store.space.missing_bytes(plan_of(source)) == len(source.files["code"]) + len(CODE["code/big"])

        before = source.served_bytes
        result = fetch_blobs(source, store, prove_access=False)
        repaired = store.snapshots.repair(snapshot, plan_of(source), result.blobs, result.unpacked)
        assert source.served_bytes - before == len(source.files["code"])
        assert content(repaired) == FILES
        changed = {p for p, inode in inodes.items() if (repaired.path / p).stat().st_ino != inode}
        assert changed == {"code/big"}
        assert_nothing_but(root, repaired)

    def test_only_a_damaged_file_beside_the_archives_is_fetched(
        self, fetch_model: FetchModel, fetch_blobs: FetchBlobs, store: Store, root: Path
    ) -> None:
        source = packed(beside={"config.json": bytes(1_000_000)})
        snapshot = fetch_model(source, store)
        (snapshot.path / "config.json").chmod(0o644)
        (snapshot.path / "config.json").write_bytes(b"short")
        before = source.served_bytes
        result = fetch_blobs(source, store, prove_access=False)
        repaired = store.snapshots.repair(snapshot, plan_of(source), result.blobs, result.unpacked)
        assert source.served_bytes - before == 1_000_000
        assert content(repaired) == {**FILES, "config.json": bytes(1_000_000)}
        assert store.snapshots.check(repaired) == []
        assert_nothing_but(root, repaired)

    def test_a_restart_adopts_unpacked_archives_and_a_removal_leaves_nothing(
        self, fetch_model: FetchModel, root: Path
    ) -> None:
        source = packed()
        store = Store.open(root)
        snapshot = fetch_model(source, store)
        store.close()
        again = Store.open(root)
        again.recover()
        assert again.snapshots.all() == [snapshot]
        assert again.space.missing_bytes(plan_of(source)) == 0
        again.snapshots.remove("llama", snapshot.revision)
        assert again.blobs.paths() == {}
        assert list((root / "partial").iterdir()) == []
        again.close()

    def test_another_model_with_one_of_the_archives_is_linked_from_it(
        self, fetch_model: FetchModel, store: Store
    ) -> None:
        source = packed()
        first = fetch_model(source, store, "first")
        other = packed(code={"other/a": b"1"})
        before = other.served_bytes
        second = fetch_model(other, store, "second")
        assert content(second) == {**CONFIG, **WEIGHTS, "other/a": b"1"}
        served = other.served_bytes - before
        assert served == len(other.files["code"]) + 2  # and one byte of each that was stored
        path = "weights/1.safetensors"
        assert (first.path / path).samefile(second.path / path)
        store.snapshots.remove("first", first.revision)
        assert content(second) == {**CONFIG, **WEIGHTS, "other/a": b"1"}

    def test_two_concurrent_downloads_fetch_the_archives_once(self, fetch_model: FetchModel, store: Store) -> None:
        """Both lock the archives in the same order, so they cannot deadlock."""
        source = packed()
        snapshots = fetch_two_at_a_time(fetch_model, source, store)
        assert [content(s) for s in snapshots] == [FILES, FILES]
        assert source.served_bytes <= source.resolve().size_bytes + 6


class _OldMark(msgspec.Struct, omit_defaults=True):
    """The completion mark as it was when a model could have only one archive."""

    id: str
    revision: str
    uri: str
    manifest: str
    files: tuple[CompletedFile, ...]
    archive: CompletedFile | None = None


def _inodes(root: Path) -> dict[Path, int]:
    """Return the inodes of the models' files; the store's own two files are written at each start."""
    return {p: p.stat().st_ino for part in ("blobs", "models") for p in (root / part).rglob("*") if p.is_file()}


def test_a_store_written_before_several_archives_were_supported_is_adopted_unchanged(
    fetch_model: FetchModel, fetch_blobs: FetchBlobs, root: Path
) -> None:
    source = MemorySource({"m.tar.gz": tar_gz(FILES)})
    store = Store.open(root)
    snapshot = fetch_model(source, store)
    store.close()
    place = snapshot.path / ".completed"
    mark = msgspec.json.decode(place.read_bytes(), type=_OldMark)
    assert mark.archive is not None
    snapshot.path.chmod(0o755)
    place.unlink()
    place.write_bytes(msgspec.json.encode(mark))  # byte for byte what the old version wrote
    snapshot.path.chmod(0o555)
    assert not msgspec.json.decode(place.read_bytes(), type=Completed).archives

    inodes, before = _inodes(root), source.served_bytes
    again = Store.open(root)
    again.recover()
    assert again.snapshots.all() == [snapshot]
    assert again.space.missing_bytes(plan_of(source)) == 0
    result = fetch_blobs(source, again, prove_access=False)
    assert again.snapshots.commit(plan_of(source), "llama", result.blobs, result.unpacked) == snapshot
    assert source.served_bytes == before
    assert _inodes(root) == inodes
    again.close()


class _PausingDisk(RealDisk):
    """Sets `stop` when the file of a length is synced, and waits with it until `go_on`."""

    def __init__(self, size_bytes: int) -> None:
        self.stop, self.go_on, self._size_bytes = threading.Event(), threading.Event(), size_bytes

    def fsync(self, descriptor: int) -> None:
        if os.fstat(descriptor).st_size == self._size_bytes and not self.stop.is_set():
            self.stop.set()
            assert self.go_on.wait(SOON_S)
        super().fsync(descriptor)


def _is_free(manifest: Manifest, store: Store) -> bool:
    now, plan = threading.Event(), DownloadPlan(manifest)
    now.set()
    with store.incoming.lock(plan.keys[manifest.files[0].path], now) as held:
        return held


def test_a_stop_in_the_second_archive_keeps_the_extracted_files_of_the_first(
    fetch_model: FetchModel, fetch_blobs: FetchBlobs, root: Path
) -> None:
    source, disk = packed(), _PausingDisk(len(BIG))  # `code` is the first of the archives
    store = Store.open(root, disk=disk)
    manifest, progress = source.resolve(), Progress()
    with pytest.raises(Stopped):
        fetch_blobs(source, store, progress=progress, stop=disk.stop)
    assert progress.done == 0
    disk.go_on.set()
    wait_until(lambda: _is_free(manifest, store), SOON_S, "the thread to leave")
    inodes = {p.stat().st_ino for p in (root / "partial").glob("*-*")}
    assert len(inodes) >= len(CODE)
    before = source.served_bytes
    snapshot = fetch_model(source, store)
    assert source.served_bytes - before == len(manifest.files)  # a byte of each
    assert content(snapshot) == FILES
    assert inodes <= {(snapshot.path / f.path).stat().st_ino for f in snapshot.files}
    assert_nothing_but(root, snapshot)
    store.close()
