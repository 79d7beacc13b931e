"""Prebuilt programs from a local server with the layout of the Kubernetes release mirror."""

import functools
import hashlib
import http.server
import platform
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rig.binaries import APISERVER, ETCD, KUBERNETES, KUBERNETES_VERSION, VERSITYGW, Binary, cached
from rig.build import setup
from rig.errors import SetupFailed


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@dataclass(frozen=True)
class Mirror:
    root: Path
    url: str

    def path(self, binary: Binary) -> Path:
        machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
        return self.root / "release" / f"v{KUBERNETES_VERSION}" / "bin" / "linux" / machine / binary.name

    def put(self, binary: Binary, content: bytes, sha256: str | None = None) -> None:
        path = self.path(binary)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.with_name(f"{binary.name}.sha256").write_text(sha256 or hashlib.sha256(content).hexdigest())


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    handler = functools.partial(_Quiet, directory=str(tmp_path / "mirror"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Mirror(tmp_path / "mirror", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
        thread.join()


@pytest.fixture
def env(mirror: Mirror, tmp_path: Path) -> dict[str, str]:
    for binary in (ETCD, VERSITYGW):  # these are not in such a mirror
        place = cached(binary, tmp_path / "cache")
        place.parent.mkdir(parents=True)
        place.touch(mode=0o755)
    return {"LARDER_CACHE": str(tmp_path / "cache"), "LARDER_KUBE_MIRROR": mirror.url, "PATH": "/nowhere"}


def _silent(_: str) -> None:
    """Print nothing."""


def test_programs_with_the_right_digest_are_installed_and_cached(
    mirror: Mirror, env: dict[str, str], tmp_path: Path
) -> None:
    for binary in KUBERNETES:
        mirror.put(binary, f"#!/bin/sh\necho {binary.name}\n".encode())
    found = setup(env, _silent)
    assert found.kube_apiserver == cached(APISERVER, tmp_path / "cache")
    assert found.kube_apiserver.read_bytes() == mirror.path(APISERVER).read_bytes()
    assert found.kubectl.stat().st_mode & 0o777 == 0o755
    mirror.path(APISERVER).unlink()
    assert setup(env, _silent) == found


def test_a_wrong_digest_is_refused_and_nothing_is_installed(
    mirror: Mirror, env: dict[str, str], tmp_path: Path
) -> None:
    for binary in KUBERNETES:
        mirror.put(binary, b"program", sha256="0" * 64)
    with pytest.raises(SetupFailed, match=r"has SHA-256 .*but .*\.sha256 says 0{64}; it was not installed"):
        setup(env, _silent)
    assert not any(cached(binary, tmp_path / "cache").exists() for binary in KUBERNETES)
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {"bin", "lock"}


def test_a_missing_program_or_digest_is_named(mirror: Mirror, env: dict[str, str]) -> None:
    with pytest.raises(SetupFailed, match=r"kube-apiserver\.sha256 does not exist \(404\); LARDER_KUBE_MIRROR"):
        setup(env, _silent)
    mirror.put(APISERVER, b"program")
    mirror.path(APISERVER).unlink()
    with pytest.raises(SetupFailed, match=r"kube-apiserver does not exist \(404\)"):
        setup(env, _silent)


def test_an_empty_digest_is_refused(mirror: Mirror, env: dict[str, str]) -> None:
    mirror.put(APISERVER, b"program", sha256=" \n")
    with pytest.raises(SetupFailed, match="says nothing"):
        setup(env, _silent)


def test_a_cache_that_cannot_be_written_is_reported_with_a_remedy(mirror: Mirror, env: dict[str, str]) -> None:
    cached(APISERVER, Path(env["LARDER_CACHE"])).parent.touch()  # a file where the directory belongs
    for binary in KUBERNETES:
        mirror.put(binary, b"program")
    with pytest.raises(SetupFailed, match=r"File exists(.|\n)*What to do"):
        setup(env, _silent)


def test_an_unreachable_mirror_is_named(env: dict[str, str]) -> None:
    with pytest.raises(SetupFailed, match=r"http://127\.0\.0\.1:1/release/.*could not be fetched: ConnectError"):
        setup(env | {"LARDER_KUBE_MIRROR": "http://127.0.0.1:1"}, _silent)
