import json
import tomllib
from pathlib import Path

import pytest

from rig.binaries import ALL, NODE, SET_UP, cached
from rig.compile import module_of, tags
from rig.errors import MissingBinaries, StartFailed
from rig.node import binaries, cgroups, containerd
from rig.node.addresses import GATEWAY, NodeAddresses
from rig.node.cluster import ready_since
from rig.node.image_store import ImageStores
from rig.node.prepare import unmet_requirements


def test_nodes_have_addresses_of_their_own() -> None:
    nodes = [NodeAddresses(number) for number in range(1, 10)]
    assert len({GATEWAY, *(node.ip for node in nodes)}) == 10
    assert len({node.pods for node in nodes}) == 9


def test_every_node_program_has_a_go_module_and_a_missing_one_is_named(tmp_path: Path) -> None:
    assert all(module_of(binary) for binary in NODE)
    assert not set(NODE) & {*ALL, *SET_UP}
    assert [tags(binary) for binary in NODE if binary.name == "ctr"] == [["-tags", "no_btrfs,no_zfs,no_devmapper"]]
    env = {"LARDER_CACHE": str(tmp_path)}
    for binary in NODE:
        place = cached(binary, tmp_path)
        if binary.name != "kubelet":
            place.parent.mkdir(parents=True)
            place.touch(mode=0o755)
    with pytest.raises(MissingBinaries, match=r"^kubelet not found; run: .*rig node setup$"):
        binaries.find(env)


def test_users_other_than_root_get_a_clear_error() -> None:
    (reason,) = unmet_requirements({}, user=1000)
    assert "root" in reason


def test_the_configuration_of_containerd_is_toml_and_its_network_json() -> None:
    config = tomllib.loads(containerd.config(Path("/disk/etc/cni")))
    plugins = config["plugins"]
    assert plugins["io.containerd.cri.v1.images"]["pinned_images"]["sandbox"] == containerd.SANDBOX_IMAGE
    assert plugins["io.containerd.cri.v1.runtime"]["cni"]["conf_dir"] == "/disk/etc/cni"
    bridge, _ = json.loads(containerd.network(NodeAddresses(3)))["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.244.3.0/24"}]]


@pytest.mark.parametrize(
    ("status", "beat", "expected"),
    [
        ("True", "1970-01-01T00:02:00Z", True),
        ("True", "1970-01-01T00:01:39Z", False),
        ("False", "1970-01-01T00:02:00Z", False),
    ],
)
def test_a_node_is_ready_only_after_a_recent_heartbeat(status: str, beat: str, *, expected: bool) -> None:
    condition = {"type": "Ready", "status": status, "lastHeartbeatTime": beat}
    assert ready_since({"status": {"conditions": [condition]}}, 100) is expected


def test_a_node_without_conditions_is_not_ready() -> None:
    assert not ready_since({}, 0)


def test_a_cgroup_v1_cpuset_inherits_the_cpus_of_its_parent(tmp_path: Path) -> None:
    for name in ("cpuset", "memory", "not-one"):
        (tmp_path / name).mkdir()
    for name in ("cpuset", "memory"):
        (tmp_path / name / "cgroup.procs").touch()
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0-3")
    (tmp_path / "cpuset" / "ours").mkdir()
    (tmp_path / "cpuset" / "ours" / "cpuset.cpus").touch()  # the kernel creates this file with the group
    cgroups.create("ours", tmp_path)
    assert (tmp_path / "cpuset" / "ours" / "cpuset.cpus").read_text() == "0-3"
    assert (tmp_path / "memory" / "ours").is_dir()
    assert not (tmp_path / "not-one" / "ours").exists()
    (tmp_path / "cpuset" / "ours" / "cpuset.cpus").unlink()
    (tmp_path / "memory" / "ours" / "pod" / "container").mkdir(parents=True)
    cgroups.remove("ours", tmp_path)
    assert not (tmp_path / "memory" / "ours").exists()


def test_cgroups_of_killed_rigs_are_swept(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    (tmp_path / "larder-rig-99999999-one" / "pods").mkdir(parents=True)
    (tmp_path / cgroups.name_of("one")).mkdir()
    (tmp_path / "somebody-else").mkdir()
    cgroups.sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {cgroups.name_of("one"), "somebody-else"}


def test_a_cgroup_is_created_in_the_single_hierarchy_of_version_2(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory")
    assert cgroups.writable(tmp_path)
    cgroups.create("ours", tmp_path)
    assert (tmp_path / "ours").is_dir()


def prepare(stores: ImageStores, archives: list[Path], target: Path, files: dict[str, str]) -> list[Path]:
    """Fill a directory, with these files if an image has to be imported; return the archives imported."""
    target.mkdir(parents=True, exist_ok=True)
    with stores.prepared(archives, target) as missing:
        for name, text in files.items() if missing else ():
            (target / name).parent.mkdir(exist_ok=True)
            (target / name).write_text(text)
    return missing


def test_clones_of_an_image_store_share_layers_but_not_databases(tmp_path: Path) -> None:
    stores, archives = ImageStores(tmp_path / "cache"), [tmp_path / "a-1.tar", tmp_path / "b-2.tar"]
    source, target = tmp_path / "source", tmp_path / "target"
    assert prepare(stores, archives, source, {"meta.db": "1", "snapshots/layer": "bytes"}) == archives
    assert prepare(stores, archives[::-1], target, {}) == []
    assert (target / "meta.db").read_text() == "1"
    assert (target / "meta.db").stat().st_ino != (source / "meta.db").stat().st_ino
    assert (target / "snapshots" / "layer").stat().st_ino == (source / "snapshots" / "layer").stat().st_ino


def test_an_image_store_starts_with_the_largest_kept_part_of_its_images_and_no_others(tmp_path: Path) -> None:
    stores = ImageStores(tmp_path / "cache")
    one, two, three, four = (tmp_path / f"{name}-1.tar" for name in "abcd")
    prepare(stores, [one], tmp_path / "1", {"one": "1"})
    prepare(stores, [one, two], tmp_path / "2", {"two": "2"})
    prepare(stores, [four], tmp_path / "3", {"four": "4"})
    assert prepare(stores, [one, two, three], tmp_path / "4", {"three": "3"}) == [three]
    assert sorted(path.name for path in (tmp_path / "4").iterdir()) == ["one", "three", "two"]


def test_an_image_store_is_not_kept_if_an_import_fails(tmp_path: Path) -> None:
    stores, archives = ImageStores(tmp_path / "cache"), [tmp_path / "a-1.tar"]
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(StartFailed), stores.prepared(archives, target):
        raise StartFailed("no space left")
    assert prepare(stores, archives, tmp_path / "next", {}) == archives


def test_only_the_last_four_image_stores_are_kept(tmp_path: Path) -> None:
    stores = ImageStores(tmp_path / "cache")
    for number in range(6):
        prepare(stores, [Path(f"image-{number}.tar")], tmp_path / str(number), {})
    assert len(list((tmp_path / "cache" / "containerd").iterdir())) == 4
