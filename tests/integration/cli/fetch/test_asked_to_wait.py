"""`larder fetch` and `larder inspect` with a hub that requests a wait: real servers, real seconds."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from controller.cli.inspect import run_inspect
from rig.hub import Hub, Refuse

REPO = "asked/llama"
SIZE = 6 * 2**20
HEADER = json.dumps({"w": {"dtype": "U8", "shape": [SIZE], "data_offsets": [0, SIZE]}}).encode()
WEIGHTS = len(HEADER).to_bytes(8, "little") + HEADER + os.urandom(SIZE)
LISTING, FILE = f"/api/models/{REPO}*", "*/resolve/*/model.safetensors"


@pytest.fixture
def pushed(hub: Hub, tmp_path: Path) -> Hub:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    hub.push(REPO, folder)
    return hub


def fetch(hub: Hub, to: Path) -> "subprocess.CompletedProcess[str]":
    environ = {"PATH": os.environ["PATH"], "HF_ENDPOINT": hub.endpoint, "LARDER_ALLOW_ADDRESSES": "127.0.0.1"}
    command = [sys.executable, "-m", "shared.cli", "fetch", f"hf://{REPO}", "--to", str(to)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603 - ourselves


@pytest.mark.parametrize("status", [429, 503])
def test_a_wait_requested_by_the_hub_is_respected_and_shown_in_the_progress(
    pushed: Hub, tmp_path: Path, status: int
) -> None:
    pushed.faults.add(Refuse(status, 6), LISTING, times=1)
    pushed.faults.add(Refuse(status, 2), FILE, times=3)
    done = fetch(pushed, tmp_path / "to")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "to" / "model.safetensors").read_bytes() == WEIGHTS
    listing = next(line for line in done.stdout.splitlines() if line.startswith("listing files, retrying: "))
    assert "RateLimited: 127.0.0.1 " in listing
    assert " 6 s (until " in listing


@pytest.mark.parametrize("path", [LISTING, FILE])
def test_a_requested_wait_longer_than_the_limit_fails_at_once(pushed: Hub, tmp_path: Path, path: str) -> None:
    pushed.faults.add(Refuse(429, 600), path)
    done = fetch(pushed, tmp_path / "to")
    assert done.returncode == 1
    assert done.stderr.startswith("RateLimited: 127.0.0.1 asks to wait 600 s (until ")
    assert done.stderr.count("\n") == 1
    assert len(pushed.journal.requests(path)) <= 4  # one of each receiver


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stderr", [Terminal(), io.StringIO()], ids=["a terminal", "a file"])
def test_an_inspection_waits_for_the_hub_and_reports_it_only_on_a_terminal(pushed: Hub, stderr: io.StringIO) -> None:
    pushed.faults.add(Refuse(429, 2), LISTING, times=2)
    stdout = io.StringIO()
    environ = {"HF_ENDPOINT": pushed.endpoint, "LARDER_ALLOW_ADDRESSES": "127.0.0.1"}
    code = run_inspect(f"hf://{REPO}", environ, stdout, stderr, output="json")
    reported = stderr.getvalue().splitlines()
    assert (code, json.loads(stdout.getvalue())["parameters"]) == (0, SIZE)
    assert len(reported) in ((1, 2) if stderr.isatty() else (0,))  # a busy machine may miss one of the two
    assert all(line.startswith("Waiting: RateLimited: 127.0.0.1 asks to wait 2 s (until ") for line in reported)
