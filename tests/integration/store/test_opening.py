"""Opening a store: locks, identity, ownership and permissions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.store.store import Store
from shared.errors import StoreFailure
from tests.builders.capabilities import without_power_over_files


def test_opening_a_locked_store_names_the_process_that_holds_it(root: Path) -> None:
    script = (
        f"import sys; from pathlib import Path; from agent.store.store import Store; Store.open(Path({str(root)!r}))"
    )
    script += "; print('open', flush=True); sys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ourselves
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(StoreFailure, match=f"in use by process {holder.pid} on "):
            Store.open(root)
        holder.kill()
    Store.open(root).close()


def test_the_id_of_a_store_survives_reopening(root: Path) -> None:
    first = Store.open(root)
    first.close()
    second = Store.open(root)
    second.close()
    assert first.id == second.id
    assert len(first.id) == 32


def test_different_stores_have_different_ids(tmp_path: Path) -> None:
    one, two = Store.open(tmp_path / "one"), Store.open(tmp_path / "two")
    assert one.id != two.id
    one.close()
    two.close()


@pytest.mark.parametrize("damaged", [b"{", b'{"id": "\xff"}'])
def test_a_damaged_identity_is_refused_with_a_remedy(root: Path, damaged: bytes) -> None:
    Store.open(root).close()
    (root / "store.json").write_bytes(damaged)
    with pytest.raises(StoreFailure, match=r"store\.json is damaged.*remove it"):
        Store.open(root)


def test_a_store_of_a_newer_version_is_refused(root: Path) -> None:
    Store.open(root).close()
    (root / "store.json").write_text('{"id": "x", "version": 2}')
    with pytest.raises(StoreFailure, match="upgrade"):
        Store.open(root)


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("")
    with pytest.raises(StoreFailure):
        Store.open(tmp_path / "root")


def test_a_link_in_the_layout_is_refused_and_not_followed(root: Path, tmp_path: Path) -> None:
    aim = tmp_path / "aim"
    aim.mkdir()
    root.mkdir()
    (root / "models").symlink_to(aim)
    with pytest.raises(StoreFailure, match="models is not a directory"):
        Store.open(root)
    assert list(aim.iterdir()) == []


def test_a_root_that_is_a_link_is_followed(root: Path, tmp_path: Path) -> None:
    root.mkdir()
    (tmp_path / "link").symlink_to(root)
    Store.open(tmp_path / "link").close()
    assert (root / "store.json").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="another owner's files take root to make")
def test_a_store_of_another_uid_is_refused(root: Path) -> None:
    Store.open(root).close()
    os.chown(root / "blobs" / "sha256", 65532, 65532)
    with pytest.raises(StoreFailure, match="belongs to uid 65532, but this process runs as uid 0"):
        Store.open(root)


def test_a_read_only_root_is_refused_with_a_remedy(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)  # noqa: S603, S607 - fixed arguments
    with pytest.raises(StoreFailure, match="Read-only file system; mount it writable"):
        Store.open(small_disk / "root")


def test_a_store_that_has_become_read_only_is_refused_with_a_remedy(small_disk: Path) -> None:
    Store.open(small_disk / "root").close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)  # noqa: S603, S607 - fixed arguments
    with pytest.raises(StoreFailure, match="mount it writable"):
        Store.open(small_disk / "root")


def test_directories_that_only_root_may_read_do_not_count(root: Path) -> None:
    """A file system that is mounted as the root of the store has a `lost+found`."""
    for foreign in (root / "lost+found", root / "models" / "foreign"):
        foreign.mkdir(parents=True)
        foreign.chmod(0)
    with without_power_over_files():
        store = Store.open(root)
        store.recover()
        assert store.snapshots.all() == []
        assert store.space.used_bytes() > 0
        store.space.reserve("model", 1, 0, 0)
        store.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_root_without_permission_is_refused_with_a_remedy(root: Path) -> None:
    root.mkdir(mode=0o555)
    with pytest.raises(StoreFailure, match="the owner of the directory"):
        Store.open(root)
