from pathlib import Path

import pytest

from rig.binaries import ALL, APISERVER, CONTROLLER_MANAGER, ETCD, Binary, cache_dir, cached, find, locate, missing
from rig.errors import MissingBinaries


def _put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o755)
    return path


def _cache(folder: Path, *binaries: Binary) -> dict[str, str]:
    for binary in binaries:
        _put(cached(binary, folder))
    return {"LARDER_CACHE": str(folder)}


def test_the_cache_is_outside_the_repository_with_one_directory_per_version(tmp_path: Path) -> None:
    assert cached(ETCD, tmp_path) == tmp_path / "bin" / f"etcd-{ETCD.version}" / "etcd"
    assert cache_dir({"LARDER_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert cache_dir({"XDG_CACHE_HOME": "/b"}) == Path("/b/larder")
    assert cache_dir({}) == Path.home() / ".cache" / "larder"


def test_kubebuilder_assets_take_precedence_and_the_cache_has_the_rest(tmp_path: Path) -> None:
    env = _cache(tmp_path / "cache", *ALL) | {"KUBEBUILDER_ASSETS": str(tmp_path / "assets")}
    own = _put(tmp_path / "assets" / "kube-apiserver")
    assert locate(APISERVER, env) == own
    assert locate(CONTROLLER_MANAGER, env) == cached(CONTROLLER_MANAGER, tmp_path / "cache")
    assert missing(env) == []
    assert find(env).kube_apiserver == own


def test_a_file_that_cannot_run_does_not_count(tmp_path: Path) -> None:
    env = _cache(tmp_path, ETCD)
    cached(ETCD, tmp_path).chmod(0o644)
    assert locate(ETCD, env) is None


def test_a_missing_program_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    env = _cache(tmp_path, *(binary for binary in ALL if binary is not ETCD))
    assert missing(env) == [ETCD]
    with pytest.raises(MissingBinaries, match=r"^etcd not found in .*run: make setup && .*python -m rig setup$"):
        find(env)
