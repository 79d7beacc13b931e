"""`larder fill` onto a mounted bucket: no links, no renames, and each file is written in order."""

import hashlib
import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.cli.fill import COMPLETED
from rig.hub.faults import Corrupt, Stall, Truncate
from rig.hub.server import Hub
from rig.processes import wait_until
from shared.download_report import DownloadReport, decode_report

REPO = "buckets/llama"
FILES = {
    "config.json": b"{}",
    "empty.txt": b"",
    "sub/tokenizer.json": b"[]",
    "model-1.safetensors": random.Random(1).randbytes(2**20),
    "model-2.safetensors": random.Random(2).randbytes(3 * 2**20),
}
_MOUNT = ["unshare", "--mount", "--propagation=private"]


@dataclass
class Bucket:
    """A bucket, and the commands that run while it is mounted."""

    folder: Path
    hub: Hub
    commit: str
    environ: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.environ = {
            "PATH": os.environ["PATH"],
            "HF_ENDPOINT": self.hub.endpoint,
            "LARDER_ALLOW_ADDRESSES": "127.0.0.1",
        }
        for path in (self.objects, self.folder / "mount"):
            path.mkdir()

    @property
    def objects(self) -> Path:
        return self.folder / "objects"

    @property
    def files(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.objects)): p.read_bytes() for p in self.objects.rglob("*") if p.is_file()}

    @property
    def report(self) -> DownloadReport:
        return decode_report((self.folder / "report").read_text())

    def command(self, *arguments: str) -> list[str]:
        """Return a command that runs with the bucket mounted in a namespace of its own."""
        return [*_MOUNT, sys.executable, "-m", "rig.mounted_bucket", str(self.objects), str(self.folder / "mount"),
                *arguments]  # fmt: skip

    def fill(self) -> list[str]:
        """Return the command of a download Job."""
        larder = [sys.executable, "-m", "shared.cli", "fill", f"hf://{REPO}@{self.commit}"]
        to, report = f"--to={self.folder}/mount/model", f"--report={self.folder}/report"
        return self.command(*larder, to, report, f"--revision={self.commit}", "--progress-port=0")

    def run(self, argv: list[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(argv, env=self.environ, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603 - ours

    def started(self, argv: list[str]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(argv, env=self.environ, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - ours


@pytest.fixture
def bucket(hub: Hub, tmp_path: Path) -> Bucket:
    for path, body in FILES.items():
        (tmp_path / "model" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / path).write_bytes(body)
    made = Bucket(tmp_path, hub, hub.push(REPO, tmp_path / "model"))
    if (tried := made.run(made.command("true"))).returncode:
        pytest.skip(f"NOT TESTED on a mounted bucket, because nothing can be mounted here: {tried.stderr}")
    return made


def complete(bucket: Bucket) -> bool:
    """Return whether the bucket has the model and its mark, and nothing else."""
    files = bucket.files
    mark = json.loads(files.pop(COMPLETED))
    assert (mark["revision"], mark["files"], mark["verified"]) == (bucket.commit, len(FILES), "digest")
    return files == {f"model/{path}": body for path, body in FILES.items()}


def test_the_test_bucket_refuses_links_renames_and_appends(bucket: Bucket) -> None:
    script = "echo a > a && ! ln a b && ! mv a b && ! chmod 600 a && ! sh -c 'echo c >> a' && cat a && rm a"
    done = bucket.run(bucket.command("sh", "-c", f"cd {bucket.folder}/mount && {script}"))
    assert (done.returncode, done.stdout, bucket.files) == (0, "a\n", {})


def test_every_file_is_written_and_marked_and_a_second_run_transfers_nothing(bucket: Bucket) -> None:
    size = sum(map(len, FILES.values()))
    done = bucket.run(bucket.fill())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "does not support hard links" in done.stdout
    assert complete(bucket)
    assert bucket.report == DownloadReport(revision=bucket.commit, downloaded_bytes=size)
    assert bucket.run(bucket.fill()).returncode == 0
    assert complete(bucket)
    assert bucket.report.reused_bytes == size


def test_a_download_continues_after_a_broken_connection_without_repeating_bytes(bucket: Bucket) -> None:
    bucket.hub.faults.add(Truncate(2**19), times=2)
    assert bucket.run(bucket.fill()).returncode == 0
    assert complete(bucket)
    assert bucket.report.downloaded_bytes == sum(map(len, FILES.values()))


def test_after_a_kill_only_unfinished_files_are_written_again(bucket: Bucket) -> None:
    name = "model-2.safetensors"
    bucket.hub.faults.add(Stall(2**20), f"*{hashlib.sha256(FILES[name]).hexdigest()}")
    kept = {f"model/{path}": body for path, body in FILES.items() if path != name}
    with bucket.started(bucket.fill()) as job:
        wait_until(lambda: job.poll() is not None or kept.items() <= bucket.files.items(), 60, "the smaller files")
        os.killpg(job.pid, 9)
    assert COMPLETED not in bucket.files
    bucket.hub.faults.clear()
    (bucket.objects / "model" / name).write_bytes(b"what the kernel closed")
    assert bucket.run(bucket.fill()).returncode == 0
    assert complete(bucket)
    assert bucket.report.downloaded_bytes == len(FILES[name])


def test_wrong_bytes_are_reported_and_neither_kept_nor_marked(bucket: Bucket) -> None:
    bucket.hub.faults.add(Corrupt(offset=2**21))
    assert bucket.run(bucket.fill()).returncode == 1
    assert bucket.report.reason == "DigestMismatch"
    assert "model-2.safetensors" in bucket.report.message
    assert not bucket.files.keys() & {COMPLETED, "model/model-2.safetensors"}
