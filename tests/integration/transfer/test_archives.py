"""Models that are one archive: it is unpacked into the store and not kept."""

import gzip
import hashlib
import os
import pickle
import random
import tarfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from agent.reconciler.downloader import Downloader
from agent.store.disk import RealDisk
from agent.store.download_plan import DownloadPlan
from agent.store.scrub import Scrubber, ScrubFigures
from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from agent.transfer.receive import Stopped
from rig.processes import wait_until
from shared.api.model_node import Entry
from shared.api.wire import CredentialsResponse
from shared.errors import AuthDenied, InsufficientStorage, LarderError, PickleRefused
from shared.sources.memory import MemorySource
from shared.sources.port import ANONYMOUS, Credentials
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri
from tests.builders.archives import MAKERS, declaring, member, tar, tar_gz, zipped
from tests.builders.refused_archives import REFUSED
from tests.builders.stores import plan_of
from tests.integration.store.rot import flip_a_bit
from tests.integration.transfer.unpacking import SOON_S, FetchBlobs, assert_nothing_but, content, fetch_two_at_a_time

BIG = random.Random(7).randbytes(5 * 2**20 + 3)
FILES = {"m/config.json": b"{}", "m/model.safetensors": BIG, "m/sub/a": b"a", "m/sub/empty": b""}
FILE_BYTES = 5_000_000
UNPACKED_BYTES = sum(map(len, FILES.values()))


class TestUnpacking:
    @pytest.mark.parametrize("name", MAKERS)
    def test_the_files_replace_the_archive(
        self, name: str, fetch_model: Callable[..., Snapshot], store: Store, root: Path
    ) -> None:
        source, progress = MemorySource({name: MAKERS[name](FILES)}), Progress()
        snapshot = fetch_model(source, store)
        assert content(snapshot) == FILES
        assert snapshot.manifest_digest == source.resolve().digest
        assert snapshot.verified == "digest"
        assert snapshot.size == UNPACKED_BYTES
        assert_nothing_but(root, snapshot)
        assert progress.done == 0

    @pytest.mark.parametrize("name", MAKERS)
    def test_progress_ends_at_the_total(self, name: str, fetch_blobs: FetchBlobs, store: Store) -> None:
        progress = Progress()
        fetch_blobs(MemorySource({name: MAKERS[name](FILES)}), store, progress=progress)
        assert progress.done == progress.total >= UNPACKED_BYTES

    def test_an_archive_without_a_digest_is_verified_by_size(
        self, fetch_model: Callable[..., Snapshot], store: Store
    ) -> None:
        assert fetch_model(MemorySource({"m.zip": zipped(FILES)}, digests=False), store).verified == "size"

    def test_links_in_an_archive_become_hard_links_to_one_file(
        self, fetch_model: Callable[..., Snapshot], store: Store
    ) -> None:
        links = member("m/l", tarfile.SYMTYPE, "sub/../model.safetensors"), member("h", tarfile.LNKTYPE, "m/sub/a")
        snapshot = fetch_model(MemorySource({"m.tar": tar(FILES, *links)}), store)
        assert content(snapshot) == {**FILES, "m/l": BIG, "h": b"a"}
        assert (snapshot.path / "m/l").samefile(snapshot.path / "m/model.safetensors")
        assert not (snapshot.path / "m/l").is_symlink()

    @pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    def test_members_with_names_of_maximum_length_are_unpacked(
        self, form: int, fetch_model: Callable[..., Snapshot], store: Store
    ) -> None:
        files = {"d" * 255 + "/" + "n" * 255: b"1", "\u00e9" * 127 + "x": b"2", "a b & '\n": b"3"}
        assert content(fetch_model(MemorySource({"m.tar": tar(files, form=form)}), store)) == files

    def test_many_small_members_are_unpacked(
        self, fetch_model: Callable[..., Snapshot], store: Store, root: Path
    ) -> None:
        files = {f"d{number % 7}/{number}": str(number % 900).encode() for number in range(1_500)}
        snapshot = fetch_model(MemorySource({"m.tgz": tar_gz(files)}), store)
        assert content(snapshot) == files
        assert_nothing_but(root, snapshot)

    def test_two_archives_or_one_beside_another_file_are_not_unpacked(
        self, fetch_model: Callable[..., Snapshot], store: Store
    ) -> None:
        for number, files in enumerate(({"a.tar": tar(FILES), "b.tar": tar(FILES)}, {"a.zip": b"no zip", "b": b""})):
            assert content(fetch_model(MemorySource(files), store, f"m{number}")) == files

    def test_an_archive_in_an_archive_is_not_unpacked(self, fetch_model: Callable[..., Snapshot], store: Store) -> None:
        files = {"inner.tar": tar(FILES)}
        assert content(fetch_model(MemorySource({"m.zip": zipped(files)}), store)) == files

    def test_memory_does_not_grow_with_the_files(self, fetch_blobs: FetchBlobs, store: Store) -> None:
        source = MemorySource({"m.tgz": gzip.compress(tar({"zeros": bytes(100_000_000)}), 1)})
        manifest = source.resolve()
        tracemalloc.start()
        try:
            fetch_blobs(source, store, manifest=manifest)
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak_bytes < 15_000_000


class TestRefusal:
    @pytest.mark.parametrize("case", REFUSED)
    def test_a_refused_archive_is_kept_packed_until_it_is_discarded(
        self, case: str, fetch_model: Callable[..., Snapshot], store: Store, root: Path
    ) -> None:
        name, body, reason, phrase = REFUSED[case]
        source = MemorySource({name: body})
        with pytest.raises(LarderError, match=phrase) as raised:
            fetch_model(source, store)
        assert raised.value.reason == reason
        assert store.snapshots.all() == []
        kept = hashlib.sha256(body).hexdigest()  # otherwise it would be fetched again, only to be refused
        assert set(store.blobs.paths()) == {kept}
        assert not list(root.glob("partial/*-*"))
        store.unfinished.discard(plan_of(source))
        assert store.blobs.paths() == {}

    def test_a_pickle_in_an_archive_is_refused_unless_pickles_are_allowed(self, store: Store, tmp_path: Path) -> None:
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / "m.tar").write_bytes(tar({"config.json": b"{}", "weights.bin": pickle.dumps([1, 2])}))
        settings = SourceSettings(local_roots=(str(tmp_path),))
        source = open_source(parse_uri(f"local://{tmp_path}/there"), ANONYMOUS, settings)
        manifest = msgspec.structs.replace(source.resolve(), allow_pickle=False)
        downloader = Downloader(store, settings, RateLimiter(), 2)
        entry = Entry(id="llama", revision=manifest.revision)
        with pytest.raises(PickleRefused, match=r"weights\.bin"):
            downloader.download(
                entry, DownloadPlan(manifest), CredentialsResponse(()), None, Progress(), threading.Event()
            )
        assert store.snapshots.all() == []
        assert store.blobs.paths() == {}


OVERHEAD_BYTES = 64 * 1024  # more than what directories, marks and ends of blocks take here


class TestRoom:
    def test_an_exact_fit_is_accepted_and_one_byte_less_is_not(
        self, fetch_model: Callable[..., Snapshot], store: Store, root: Path
    ) -> None:
        source = MemorySource({"m.tgz": tar_gz(FILES)})
        archive = source.resolve().size_bytes
        limit = store.space.used_bytes() + archive + UNPACKED_BYTES
        store.space.reserve("llama", store.space.missing_bytes(plan_of(source)), limit - 1, 0)
        with pytest.raises(InsufficientStorage, match="raise storageLimit"):
            fetch_model(source, store, reservation="llama")
        store.space.release("llama")
        assert store.blobs.paths() == {}
        assert not list(root.glob("partial/*.part"))

        before = source.served_bytes
        manifest = source.resolve()  # its unpacked size is known now, so it is not fetched only to be refused
        plan = DownloadPlan(manifest)
        need = store.space.missing_bytes(plan) + store.space.overhead_bytes(plan, "llama")
        limit = store.space.used_bytes() + need
        with pytest.raises(InsufficientStorage, match=f"need {need} bytes.*have {need - 1} bytes"):
            store.space.reserve("llama", need, limit - 1, 0)
        store.space.reserve("llama", need, limit, 0)
        snapshot = fetch_model(source, store, reservation="llama")
        assert source.served_bytes - before == archive
        store.space.release("llama")
        assert_nothing_but(root, snapshot)
        assert store.space.used_bytes() <= limit - archive

    def test_the_space_an_archive_needs_is_known_after_a_restart(
        self, fetch_model: Callable[..., Snapshot], root: Path
    ) -> None:
        source = MemorySource({"m.zip": zipped(FILES)})
        store = Store.open(root)
        size = source.resolve().size_bytes
        store.space.reserve("llama", size, store.space.used_bytes() + size + 1, 0)
        with pytest.raises(InsufficientStorage):
            fetch_model(source, store, reservation="llama")
        store.close()
        again = Store.open(root)
        again.recover()
        assert 0 <= again.space.missing_bytes(plan_of(source)) - size - UNPACKED_BYTES < OVERHEAD_BYTES
        again.unfinished.discard(plan_of(source))
        assert again.space.missing_bytes(plan_of(source)) == source.resolve().size_bytes
        assert list((root / "partial").iterdir()) == []
        again.close()

    def test_a_bomb_is_not_read_beyond_the_available_space(
        self, fetch_model: Callable[..., Snapshot], store: Store
    ) -> None:
        bomb = {f"{number}": bytes(20_000_000) for number in range(5)}
        source = MemorySource({"m.tgz": gzip.compress(tar(bomb))})
        store.space.reserve("llama", source.resolve().size_bytes, 30_000_000, 0)
        with pytest.raises(InsufficientStorage, match=r"unpacks to 38.1 MiB or more"):
            fetch_model(source, store, reservation="llama")
        assert store.blobs.paths() == {}

    def test_an_archive_that_declares_an_exabyte_is_refused_by_its_header(
        self, fetch_model: Callable[..., Snapshot], store: Store
    ) -> None:
        body = declaring(2**60)
        with pytest.raises(InsufficientStorage, match=rf"need {2**60 // 10**6}\d+ bytes"):
            fetch_model(MemorySource({"m.zip": body}), store)
        assert store.blobs.paths() == {}

    def test_an_archive_that_does_not_fit_on_the_disk_leaves_no_bytes_behind(
        self, fetch_model: Callable[..., Snapshot], small_disk: Path
    ) -> None:
        store = Store.open(small_disk / "root")
        free = store.space.free_bytes()
        with pytest.raises(InsufficientStorage, match="free space on the node's disk"):
            fetch_model(MemorySource({"m.tar": tar({"a": os.urandom(3_500_000)})}), store)
        assert store.space.free_bytes() >= free - 100_000
        store.close()

    def test_reservations_of_others_are_respected(self, fetch_model: Callable[..., Snapshot], store: Store) -> None:
        source = MemorySource({"m.tgz": tar_gz(FILES)})
        limit = source.resolve().size_bytes + UNPACKED_BYTES + 9
        store.space.reserve("other", 10, limit, 0)
        store.space.reserve("llama", source.resolve().size_bytes, limit, 0)
        with pytest.raises(InsufficientStorage, match="reserved for others 10 bytes"):
            fetch_model(source, store, reservation="llama")
        assert store.space.reserved_bytes() == 10


class TestSharing:
    def test_another_model_with_the_archive_is_linked_from_existing_files(
        self, fetch_model: Callable[..., Snapshot], store: Store, root: Path
    ) -> None:
        source = MemorySource({"m.tar": tar(FILES)})
        first, before = fetch_model(source, store, "first"), source.served_bytes
        assert store.space.missing_bytes(plan_of(source)) == 0
        second = fetch_model(source, store, "second")
        assert source.served_bytes == before + 1
        assert content(second) == FILES
        assert second.unpacked == first.unpacked
        assert (first.path / "m/sub/a").samefile(second.path / "m/sub/a")
        store.snapshots.remove("first", first.revision)
        assert content(second) == FILES
        assert_nothing_but(root, second)

    def test_a_linked_archive_stays_valid_although_the_first_model_is_removed_before_the_commit(
        self, fetch_model: Callable[..., Snapshot], fetch_blobs: FetchBlobs, store: Store
    ) -> None:
        source = MemorySource({"m.tar": tar(FILES)})
        first = fetch_model(source, store, "first")
        result = fetch_blobs(source, store)
        store.snapshots.remove("first", first.revision)
        assert content(store.snapshots.commit(plan_of(source), "second", result.blobs, result.unpacked)) == FILES

    def test_an_archive_is_kept_while_another_download_unpacks_it(
        self, fetch_blobs: FetchBlobs, store: Store, root: Path
    ) -> None:
        source = MemorySource({"m.tar": tar(FILES)})
        plan = plan_of(source)
        [key] = plan.keys.values()
        first, second = fetch_blobs(source, store), fetch_blobs(source, store)
        with store.incoming.lock(key, threading.Event()):
            store.snapshots.commit(plan, "first", first.blobs, first.unpacked)
            assert hashlib.sha256(source.files["m.tar"]).hexdigest() in store.blobs.paths()
        assert_nothing_but(root, store.snapshots.commit(plan, "second", second.blobs, second.unpacked))

    def test_sharing_an_unpacked_archive_requires_access_to_the_source(
        self, fetch_model: Callable[..., Snapshot], store: Store
    ) -> None:
        owner = MemorySource({"m.tar": tar(FILES)}, token="right", credentials=Credentials({"HF_TOKEN": "right"}))
        fetch_model(owner, store, "owners")
        stranger = owner.with_credentials(Credentials())
        manifest = owner.resolve()
        stranger.resolve = lambda: manifest  # type: ignore[method-assign]  # the list came from the controller
        with pytest.raises(AuthDenied):
            fetch_model(stranger, store, "strangers")
        assert [s.id for s in store.snapshots.all()] == ["owners"]

    def test_a_source_file_named_like_an_extracted_file_is_not_confused_with_it(
        self, fetch_model: Callable[..., Snapshot], store: Store
    ) -> None:
        fetch_model(
            MemorySource({"m.tar": tar({"m.tar": b"within", "a": b"within"})}, digests=False), store, "unpacked"
        )
        plain = MemorySource({"a": b"beside", "m.tar": b"beside"}, digests=False)
        assert content(fetch_model(plain, store, "plain")) == plain.files

    def test_unpacking_an_archive_keeps_it_for_a_model_that_has_it_as_a_file(
        self, fetch_model: Callable[..., Snapshot], store: Store
    ) -> None:
        body = tar(FILES)
        both = MemorySource({"m.tar": body, "README.md": b"#"})
        kept = fetch_model(both, store, "kept")
        one = MemorySource({"m.tar": body})
        unpacked = fetch_model(one, store, "unpacked")
        assert one.served_bytes == 1  # the same source has served the archive before
        assert content(kept) == both.files
        assert content(unpacked) == FILES
        assert store.snapshots.check(kept) == store.snapshots.check(unpacked) == []

    def test_two_concurrent_downloads_fetch_the_archive_once(
        self, fetch_model: Callable[..., Snapshot], store: Store
    ) -> None:
        source = MemorySource({"m.tgz": tar_gz(FILES)})
        snapshots = fetch_two_at_a_time(fetch_model, source, store)
        assert [content(s) for s in snapshots] == [FILES, FILES]
        assert source.served_bytes <= source.resolve().size_bytes + 2


class TestDamage:
    @pytest.mark.parametrize("name", ["m.tar", "m.zip"])
    def test_the_archive_is_fetched_again_and_only_the_damaged_file_replaced(
        self, name: str, fetch_model: Callable[..., Snapshot], fetch_blobs: FetchBlobs, store: Store, root: Path
    ) -> None:
        source = MemorySource({name: MAKERS[name](FILES)})
        snapshot = fetch_model(source, store)
        inodes = {f.path: (snapshot.path / f.path).stat().st_ino for f in snapshot.files}
        flip_a_bit(snapshot.path / "m/model.safetensors")
        scrub = Scrubber(store, 2**40, 0, ScrubFigures(), lambda: None, threading.Event())
        assert scrub.read_pass()
        assert store.snapshots.check(snapshot) == ["m/model.safetensors"]
        assert store.space.missing_bytes(plan_of(source)) == len(source.files[name]) + len(BIG)

        before = source.served_bytes
        result = fetch_blobs(source, store, prove_access=False)
        repaired = store.snapshots.repair(snapshot, plan_of(source), result.blobs, result.unpacked)
        assert source.served_bytes - before == len(source.files[name])
        assert content(repaired) == FILES
        assert store.snapshots.check(repaired) == []
        changed = {p for p, inode in inodes.items() if (repaired.path / p).stat().st_ino != inode}
        assert changed == {"m/model.safetensors"}
        assert_nothing_but(root, repaired)

    def test_a_lost_link_is_repaired_without_the_source(
        self, fetch_model: Callable[..., Snapshot], fetch_blobs: FetchBlobs, store: Store, root: Path
    ) -> None:
        source = MemorySource({"m.tar": tar(FILES)})
        snapshot, before = fetch_model(source, store), source.served_bytes
        (snapshot.path / "m/sub").chmod(0o755)
        (snapshot.path / "m/sub/a").unlink()
        assert store.snapshots.check(snapshot) == ["m/sub/a"]
        result = fetch_blobs(source, store, prove_access=False)
        repaired = store.snapshots.repair(snapshot, plan_of(source), result.blobs, result.unpacked)
        assert source.served_bytes == before
        assert content(repaired) == FILES
        assert_nothing_but(root, repaired)

    def test_a_restart_adopts_an_unpacked_archive(self, fetch_model: Callable[..., Snapshot], root: Path) -> None:
        source = MemorySource({"m.tar": tar(FILES)})
        store = Store.open(root)
        snapshot = fetch_model(source, store)
        store.close()
        again = Store.open(root)
        again.recover()
        assert again.snapshots.all() == [snapshot]
        assert again.space.missing_bytes(plan_of(source)) == 0
        again.snapshots.remove("llama", snapshot.revision)
        assert again.blobs.paths() == {}
        again.close()


def is_free(source: MemorySource, store: Store) -> bool:
    """Return whether no thread is unpacking the archive."""
    now, [key] = threading.Event(), plan_of(source).keys.values()
    now.set()
    with store.incoming.lock(key, now) as held:
        return held


class PausingDisk(RealDisk):
    """Sets `stop` when the second file out of an archive is synced, and waits with it until `go_on`."""

    def __init__(self) -> None:
        self.stop, self.go_on, self._left = threading.Event(), threading.Event(), 2

    def fsync(self, descriptor: int) -> None:
        if os.fstat(descriptor).st_size == FILE_BYTES:
            self._left -= 1
            if self._left == 0:
                self.stop.set()
                assert self.go_on.wait(SOON_S)
        super().fsync(descriptor)


class TestInterruption:
    FILES = {f"{number}": random.Random(number).randbytes(FILE_BYTES) for number in range(4)}
    ZEROS = {f"{number}": bytes([number]) * FILE_BYTES for number in range(4)}

    @pytest.fixture
    def disk(self) -> PausingDisk:
        return PausingDisk()

    @pytest.fixture
    def store(self, root: Path, disk: PausingDisk) -> Iterator[Store]:
        opened = Store.open(root, disk=disk)
        yield opened
        opened.close()

    @staticmethod
    def stopped(source: MemorySource, fetch_blobs: FetchBlobs, store: Store, disk: PausingDisk) -> Path:
        """Stop a download while its second file is extracted; return the directory of unfinished files."""
        progress, partial = Progress(), store.root / "partial"
        with pytest.raises(Stopped):
            fetch_blobs(source, store, progress=progress, stop=disk.stop)
        assert progress.done == 0
        disk.go_on.set()
        wait_until(lambda: is_free(source, store), SOON_S, "the thread to leave")
        assert not list(partial.glob("*-*.part"))
        assert len(list(partial.glob("*-*"))) == 2
        return partial

    def test_after_a_stop_unpacking_continues_with_the_missing_files(
        self, fetch_model: Callable[..., Snapshot], fetch_blobs: FetchBlobs, store: Store, disk: PausingDisk
    ) -> None:
        source = MemorySource({"m.tar": tar(self.FILES)})
        partial = self.stopped(source, fetch_blobs, store, disk)
        before, inodes = source.served_bytes, {p.stat().st_ino for p in partial.glob("*-*")}
        snapshot = fetch_model(source, store)
        assert source.served_bytes == before + 1
        assert content(snapshot) == self.FILES
        assert inodes <= {(snapshot.path / f.path).stat().st_ino for f in snapshot.files}
        assert_nothing_but(store.root, snapshot)

    @pytest.mark.parametrize("files", [FILES, ZEROS], ids=["incompressible", "compressible"])
    def test_space_is_requested_only_for_missing_bytes(
        self,
        files: dict[str, bytes],
        fetch_model: Callable[..., Snapshot],
        fetch_blobs: FetchBlobs,
        store: Store,
        disk: PausingDisk,
    ) -> None:
        body = tar_gz(files)
        source = MemorySource({"m.tgz": body})
        self.stopped(source, fetch_blobs, store, disk)
        assert store.space.missing_bytes(plan_of(source)) == 0
        store.space.reserve("llama", 0, len(body) + sum(map(len, files.values())) + OVERHEAD_BYTES, 0)
        assert content(fetch_model(source, store, reservation="llama")) == files

    def test_the_space_an_archive_needs_shrinks_by_the_unpacked_bytes(
        self, fetch_blobs: FetchBlobs, store: Store, disk: PausingDisk
    ) -> None:
        source = MemorySource({"m.tar": tar(self.FILES)})
        manifest, files_bytes = source.resolve(), sum(map(len, self.FILES.values()))
        limit = store.space.used_bytes() + manifest.size_bytes + files_bytes
        store.space.reserve("llama", store.space.missing_bytes(DownloadPlan(manifest)), limit - 1, 0)
        with pytest.raises(InsufficientStorage):
            fetch_blobs(source, store, reservation="llama")
        need, limit = store.space.missing_bytes(DownloadPlan(manifest)), limit + OVERHEAD_BYTES
        store.space.reserve("llama", need, limit, 0)
        self.stopped(source, fetch_blobs, store, disk)
        store.space.release("llama")
        assert store.space.missing_bytes(DownloadPlan(manifest)) == need - manifest.size_bytes - 2 * FILE_BYTES
        store.space.reserve("llama", store.space.missing_bytes(DownloadPlan(manifest)), limit, 0)

    def test_discarding_an_archive_removes_its_extracted_files(
        self, fetch_blobs: FetchBlobs, store: Store, disk: PausingDisk
    ) -> None:
        source = MemorySource({"m.tar": tar(self.FILES)})
        partial = self.stopped(source, fetch_blobs, store, disk)
        store.unfinished.discard(plan_of(source))
        assert store.blobs.paths() == {}
        assert list(partial.iterdir()) == []

    def test_an_idle_archive_is_kept_while_it_is_wanted(
        self, fetch_blobs: FetchBlobs, store: Store, disk: PausingDisk
    ) -> None:
        source = MemorySource({"m.tar": tar(self.FILES)})
        partial = self.stopped(source, fetch_blobs, store, disk)
        before = set(partial.iterdir())
        assert store.unfinished.drop_idle([plan_of(source)], 0) == 0
        assert set(partial.iterdir()) == before
        assert store.unfinished.drop_idle([], 0) == len(before)
        assert store.blobs.paths() == {}
