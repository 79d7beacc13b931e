"""`larder fetch` against a real hub over HTTP."""

import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from rig.hub.faults import Corrupt, Refuse, Stall, Truncate
from rig.hub.repository import RepositoryAccess
from rig.hub.server import Hub
from rig.processes import wait_until

FILES = {
    "config.json": b'{"model_type": "llama"}',
    "model.safetensors": random.Random(1).randbytes(6 * 2**20),
    "deep/er/notes.md": b"# notes",
}
REPO = "fetch-cli/llama"
TOKEN = "right"
LARGE_PATHS = "*/resolve/*/model.safetensors"


@pytest.fixture
def pushed(hub: Hub, tmp_path: Path) -> Hub:
    for path, body in FILES.items():
        (tmp_path / "model" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / path).write_bytes(body)
    hub.push(REPO, tmp_path / "model", access=RepositoryAccess(frozenset({TOKEN})))
    return hub


def start(hub: Hub, to: Path, token: str = TOKEN, uri: str = f"hf://{REPO}") -> "subprocess.Popen[str]":
    environ = {
        **os.environ,
        "HF_ENDPOINT": hub.endpoint,
        "HF_TOKEN": token,
        "LARDER_ALLOW_ADDRESSES": "127.0.0.1",  # the host of the hub's large files, which a redirect names
    }
    command = [sys.executable, "-m", "shared.cli", "fetch", uri, "--to", str(to)]
    return subprocess.Popen(  # noqa: S603 - ourselves
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    )


def fetch(hub: Hub, to: Path, token: str = TOKEN, uri: str = f"hf://{REPO}") -> tuple[int, str]:
    with start(hub, to, token, uri) as process:
        _, error = process.communicate(timeout=60)
    return process.returncode, error


def tree(top: Path) -> dict[str, bytes]:
    return {str(p.relative_to(top)): p.read_bytes() for p in top.rglob("*") if p.is_file()}


def test_a_private_repository_is_fetched_with_the_token_of_the_environment(pushed: Hub, tmp_path: Path) -> None:
    assert fetch(pushed, tmp_path / "to") == (0, "")
    assert tree(tmp_path / "to") == FILES


def test_a_wrong_token_or_revision_prints_one_line_with_the_reason(pushed: Hub, tmp_path: Path) -> None:
    code, error = fetch(pushed, tmp_path / "to", token="wrong")
    assert code == 1
    assert error.split(":")[0] in ("AuthDenied", "SourceNotFound")
    assert error.count("\n") == 1
    code, error = fetch(pushed, tmp_path / "to", uri=f"hf://{REPO}@no-such-branch")
    assert code == 1
    assert error.startswith("RevisionNotFound: ")


def test_a_download_survives_a_server_that_truncates_and_refuses(pushed: Hub, tmp_path: Path) -> None:
    pushed.faults.add(Truncate(2 * 2**20), times=2)
    pushed.faults.add(Refuse(503, retry_after_s=0.2), path=LARGE_PATHS, times=1)
    assert fetch(pushed, tmp_path / "to") == (0, "")
    assert tree(tmp_path / "to") == FILES


def test_a_file_with_a_wrong_digest_is_refused(pushed: Hub, tmp_path: Path) -> None:
    pushed.faults.add(Corrupt(offset=5 * 2**20))
    code, error = fetch(pushed, tmp_path / "to")
    assert code == 1
    assert error.startswith("DigestMismatch: 'model.safetensors'")


def is_half_there(to: Path) -> bool:
    """Return whether a part of the unfinished large file is on the disk."""
    sizes = list[int]()
    for path in (to / ".larder" / "partial").glob("*.part"):
        with suppress(FileNotFoundError):  # a small one may be finished just now
            sizes.append(path.stat().st_size)
    return max(sizes, default=0) >= 2**19


def test_sigterm_ends_a_fetch_that_hangs_and_the_next_continues(pushed: Hub, tmp_path: Path) -> None:
    pushed.faults.add(Stall(2**20))
    with start(pushed, tmp_path / "to") as process:
        wait_until(lambda: process.poll() is not None or is_half_there(tmp_path / "to"), 60, "half of the file")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130
    pushed.faults.clear()
    assert fetch(pushed, tmp_path / "to") == (0, "")
    assert tree(tmp_path / "to") == FILES
