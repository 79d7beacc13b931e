"""Prebuilt programs from a mirror of the Kubernetes releases, each checked against its published SHA-256."""

import hashlib
import platform
from pathlib import Path

import httpx

from rig import progress
from rig.binaries import Binary
from rig.errors import SetupFailed

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_TIMEOUT_S = 60.0
_MIB = 1024 * 1024


def address(base: str, binary: Binary, machine: str) -> str:
    """Return the URL of a program on a release mirror for this architecture."""
    architecture = _ARCHITECTURES.get(machine, machine)
    return f"{base.rstrip('/')}/release/v{binary.version}/bin/linux/{architecture}/{binary.name}"


def fetch(base: str, binary: Binary, work: Path, notify: progress.Notify) -> Path:
    """Download a program below `work`; raises SetupFailed if it is missing or does not match its SHA-256."""
    url, target = address(base, binary, platform.machine()), work / binary.name
    notify(f"fetching {url} ...")
    try:
        with httpx.Client(follow_redirects=True, timeout=_TIMEOUT_S) as http:
            expected = _get(http, f"{url}.sha256").split()
            found = _download(http, url, target)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise SetupFailed(f"{url} could not be fetched: {error!r}; {_hint()}") from error
    if expected[:1] != [found]:
        target.unlink()
        raise SetupFailed(
            f"{url} has SHA-256 {found}, but {url}.sha256 says {' '.join(expected[:1]) or 'nothing'}; "
            f"it was not installed; {_hint()}"
        )
    notify(f"  {target.stat().st_size / _MIB:.0f} MiB, SHA-256 {found[:12]}... as published")
    return target


def _get(http: httpx.Client, url: str) -> str:
    response = http.get(url)
    _raise_if_missing(response, url)
    return response.text


def _download(http: httpx.Client, url: str, target: Path) -> str:
    digest = hashlib.sha256()
    with http.stream("GET", url) as response, target.open("wb") as out:
        _raise_if_missing(response, url)
        for piece in response.iter_bytes(_MIB):
            digest.update(piece)
            out.write(piece)
    return digest.hexdigest()


def _raise_if_missing(response: httpx.Response, url: str) -> None:
    if response.status_code == httpx.codes.NOT_FOUND:
        raise SetupFailed(f"{url} does not exist (404); {_hint()}")
    response.raise_for_status()


def _hint() -> str:
    return "LARDER_KUBE_MIRROR must be the URL above /release/v<version>/; unset it to compile from Go modules"
