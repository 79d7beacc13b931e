"""`larder fetch --layout hub` writes a cache that `huggingface_hub` reads offline."""

import json
import os
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rig.hub.faults import Corrupt, Stall
from rig.hub.server import Hub
from rig.processes import wait_until
from tests.integration.cli.fetch.command import larder

FILES = {
    "config.json": b'{"model_type": "llama"}',
    "same/config.json": b'{"model_type": "llama"}',
    "model.safetensors": random.Random(2).randbytes(3 * 2**20),
}
REPO, OTHER = "hub-layout/llama", "hub-layout/other"
_READ = """
import json, os, sys
import huggingface_hub as hub
repo, revision = sys.argv[1:]
folder = hub.snapshot_download(repo, revision=revision)
config = hub.hf_hub_download(repo, "same/config.json", revision=revision)
cache = hub.scan_cache_dir()
refs = {r.repo_id: sorted(ref for v in r.revisions for ref in v.refs) for r in cache.repos}
print(json.dumps({
    "folder": folder, "config": open(config).read(), "refs": refs,
    "warnings": [str(w) for w in cache.warnings], "size": cache.size_on_disk,
}))
"""


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for path, body in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(body)
    return folder


@pytest.fixture
def commit(hub: Hub, tmp_path: Path) -> str:
    return hub.push(REPO, write(tmp_path / "model", FILES))


def fetch(hub: Hub, cache: Path, uri: str = f"hf://{REPO}", *more: str) -> "subprocess.CompletedProcess[str]":
    return larder("fetch", uri, "--to", str(cache), "--layout", "hub", *more, HF_ENDPOINT=hub.endpoint)


def read_offline(cache: Path, repo: str = REPO, revision: str = "main") -> dict[str, Any]:
    """Return what `huggingface_hub` finds offline."""
    found: dict[str, Any] = json.loads(python(_READ, cache, repo, revision, HF_HUB_OFFLINE="1"))
    return found


def python(script: str, cache: Path, *arguments: str, **environ: str) -> str:
    env = {"PATH": os.environ["PATH"], "HF_HUB_CACHE": str(cache), **environ}
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout  # noqa: S603 - ours


def test_huggingface_hub_reads_the_fetched_layout_offline_as_its_own_cache(
    hub: Hub, commit: str, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    done = fetch(hub, cache, f"hf://{REPO}", "-o", "json")
    assert done.returncode == 0, done.stderr
    folder = f"{cache}/models--hub-layout--llama/snapshots/{commit}"
    assert json.loads(done.stdout)["directory"] == folder
    found = read_offline(cache)
    assert (found["folder"], found["config"], found["warnings"]) == (folder, FILES["config.json"].decode(), [])
    assert found["refs"] == {REPO: ["main"]}
    bodies = set(FILES.values())
    assert found["size"] == sum(map(len, bodies)), "equal files are stored once"
    repository = cache / "models--hub-layout--llama"
    assert {path.read_bytes() for path in (repository / "blobs").iterdir()} == bodies
    assert sorted(path.name for path in repository.iterdir()) == ["blobs", "refs", "snapshots"]
    assert {path: (Path(folder) / path).read_bytes() for path in FILES} == FILES


def test_a_second_fetch_transfers_only_missing_or_damaged_files(hub: Hub, commit: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert fetch(hub, cache).returncode == 0
    assert json.loads(fetch(hub, cache, f"hf://{REPO}", "-o", "json").stdout)["fetched"] == 0
    weights = cache / "models--hub-layout--llama" / "snapshots" / commit / "model.safetensors"
    weights.resolve().write_bytes(bytes(len(FILES["model.safetensors"])))
    (weights.parent / "config.json").unlink()
    (weights.parent / "config.json").write_text("a file of somebody else")
    again = json.loads(fetch(hub, cache, f"hf://{REPO}", "-o", "json").stdout)
    assert again["fetched"] == len(FILES["model.safetensors"])
    assert {path: (weights.parent / path).read_bytes() for path in FILES} == FILES
    assert (weights.parent / "config.json").is_symlink()


def test_a_cache_of_huggingface_hub_is_completed_and_keeps_its_other_models(
    hub: Hub, commit: str, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    other = hub.push(OTHER, write(tmp_path / "other", {**FILES, "more.txt": b"more"}))
    script = f"import huggingface_hub; huggingface_hub.snapshot_download({OTHER!r})"
    python(script, cache, HF_ENDPOINT=hub.endpoint, HF_HUB_DISABLE_XET="1")
    assert json.loads(fetch(hub, cache, f"hf://{OTHER}", "-o", "json").stdout)["fetched"] == 0
    assert fetch(hub, cache).returncode == 0
    assert read_offline(cache)["refs"] == {REPO: ["main"], OTHER: ["main"]}
    assert read_offline(cache, OTHER)["folder"].endswith(other)
    assert read_offline(cache)["folder"].endswith(commit)


def test_a_new_commit_shares_its_files_and_a_branch_has_its_own_reference(
    hub: Hub, commit: str, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    assert fetch(hub, cache).returncode == 0
    newer = hub.push(REPO, write(tmp_path / "newer", {**FILES, "config.json": b"{}"}), branch="refs/pr/1")
    done = json.loads(fetch(hub, cache, f"hf://{REPO}@refs/pr/1", "-o", "json").stdout)
    assert done["fetched"] == 2
    assert read_offline(cache, revision="refs/pr/1")["folder"].endswith(newer)
    assert read_offline(cache)["folder"].endswith(commit)
    assert read_offline(cache)["refs"] == {REPO: ["main", "refs/pr/1"]}


def test_refs_and_snapshots_appear_only_after_every_file_is_verified(hub: Hub, commit: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    hub.faults.add(Corrupt(offset=2**20))
    done = fetch(hub, cache)
    assert done.returncode == 1
    assert done.stderr.startswith("DigestMismatch: 'model.safetensors'")
    repository = cache / "models--hub-layout--llama"
    assert not (repository / "refs").exists()
    assert not (repository / "snapshots").exists()
    hub.faults.clear()
    assert fetch(hub, cache).returncode == 0
    assert read_offline(cache)["folder"].endswith(commit)


def test_a_killed_fetch_resumes_from_its_partial_file(hub: Hub, commit: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    partial = cache / "models--hub-layout--llama" / ".larder" / "partial"
    hub.faults.add(Stall(2**20))
    command = [sys.executable, "-m", "shared.cli", "fetch", f"hf://{REPO}", "--to", str(cache), "--layout", "hub"]
    env = {**os.environ, "HF_ENDPOINT": hub.endpoint, "LARDER_ALLOW_ADDRESSES": "127.0.0.1"}
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as process:  # noqa: S603 - ours
        wait_until(lambda: process.poll() is not None or size_below(partial) >= 2**19, 60, "a part of the file")
        process.kill()
    hub.faults.clear()
    again = json.loads(fetch(hub, cache, f"hf://{REPO}", "-o", "json").stdout)
    assert again["fetched"] < len(FILES["model.safetensors"])
    assert read_offline(cache)["folder"].endswith(commit)


def size_below(folder: Path) -> int:
    with suppress(FileNotFoundError):  # a file may be finished just now
        return max((path.stat().st_size for path in folder.glob("*.part")), default=0)
    return 0


def test_the_hub_layout_is_refused_for_other_sources(tmp_path: Path) -> None:
    done = larder("fetch", f"local://{tmp_path}", "--to", str(tmp_path / "cache"), "--layout", "hub")
    assert (done.returncode, done.stderr.partition(":")[0]) == (1, "InvalidURI")
    assert "leave out --layout" in done.stderr
    assert not (tmp_path / "cache").exists()
