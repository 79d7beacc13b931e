"""SIGKILL of `larder fetch` at any step: the next run fetches only missing files and repairs the directory."""

import io
import subprocess
import sys
from pathlib import Path

from agent.cli.fetch import run_fetch
from shared.sources.memory import MemorySource, open_from
from tests.integration.cli.fetch.killed_fetch import FILES, URI


def killed(to: Path, fatal: int) -> bool:
    """Run the command until it is killed; return whether it was."""
    arguments = ["-m", "tests.integration.cli.fetch.killed_fetch", str(to), str(fatal)]
    return subprocess.run([sys.executable, *arguments], check=False, timeout=60).returncode != 0  # noqa: S603 - ourselves


def verified(top: Path) -> set[bytes]:
    """Return the files that are verified; unverified ones are writable."""
    return {
        p.read_bytes() for p in top.rglob("*") if p.is_file() and (p.suffix != ".part" or p.stat().st_mode == 0o100444)
    }


def read(top: Path) -> dict[str, bytes]:
    return {str(p.relative_to(top)): p.read_bytes() for p in top.rglob("*") if p.is_file()}


def test_a_fetch_killed_at_any_step_resumes_without_repeating_verified_files(tmp_path: Path) -> None:
    deaths, served = 0, 0
    while killed(to := tmp_path / str(deaths), deaths + 1):
        deaths += 1
        here = verified(to) if to.is_dir() else set()
        source = MemorySource(FILES)
        error = io.StringIO()
        assert run_fetch(URI, to, {}, io.StringIO(), error, opener=open_from({"test/model": source})) == 0, (
            error.getvalue()
        )
        assert source.served_bytes <= sum(map(len, set(FILES.values()) - here))
        served += source.served_bytes
        assert read(to) == FILES
        found = [(to / path).stat() for path in FILES]
        assert {f.st_mode & 0o777 for f in found} == {0o644}
        assert min(f.st_mtime for f in found) > 10**9
    assert deaths > 40
    assert served > 0
