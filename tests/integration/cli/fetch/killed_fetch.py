"""A `larder fetch` that is killed before a change to names or modes; arguments: DIR, number of the change."""

import os
import random
import sys
from pathlib import Path

from agent.cli.fetch import run_fetch
from shared.sources.memory import MemorySource, open_from
from tests.integration.store.killed import die_before_change

URI = "hf://test/model"
FILES = {
    "a.safetensors": random.Random(1).randbytes(5_000_000), "config.json": b"{}", "copy/config.json": b"{}",
    "sub/empty.txt": b"",
}  # fmt: skip


def main() -> None:
    """Run until it is killed."""
    to, fatal = Path(sys.argv[1]), int(sys.argv[2])
    opener = open_from({"test/model": MemorySource(FILES)})
    die_before_change(fatal)
    sys.exit(run_fetch(URI, to, os.environ, sys.stdout, sys.stderr, quiet=True, opener=opener))


if __name__ == "__main__":
    main()
