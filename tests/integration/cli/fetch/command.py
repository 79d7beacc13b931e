"""`larder fetch` into a directory: in this process from a source in memory, or as a program."""

import io
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from agent.cli.fetch import run_fetch
from shared.sources.memory import MemorySource, open_from

URI = "hf://test/model"
FILES = {"config.json": b"{}", "weights.safetensors": os.urandom(5 * 2**20), "sub/tokenizer.json": b"[]", "copy": b"{}"}


@dataclass
class Command:
    """One `larder fetch` and what it wrote."""

    to: Path
    source: MemorySource
    environ: dict[str, str] = field(default_factory=dict)
    out: str = ""
    error: str = ""

    def run(self, uri: str = URI, *, stop: threading.Event | None = None, quiet: bool = False) -> int:
        stdout, stderr = io.StringIO(), io.StringIO()
        opener = open_from({"test/model": self.source})
        code = run_fetch(uri, self.to, self.environ, stdout, stderr, stop=stop, quiet=quiet, opener=opener)
        self.out, self.error = stdout.getvalue(), stderr.getvalue()
        return code

    def tree(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.to)): p.read_bytes() for p in self.to.rglob("*") if p.is_file()}


def larder(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": os.environ["PATH"], "LARDER_ALLOW_ADDRESSES": "127.0.0.1", **environ}
    command = [sys.executable, "-m", "shared.cli", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - ours
