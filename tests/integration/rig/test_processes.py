"""Programs that the rig starts: readiness, a clean stop, no orphans."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rig.errors import StartFailed
from rig.processes import Process, Program, wait_until

SOON_S = 60.0
IGNORES = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
STUBBORN = f"{IGNORES}; print('up', flush=True); time.sleep(300)"
PARENT = """
import sys, time
from pathlib import Path
from rig.processes import Process, Program
child = Process(Program("child", [sys.executable, "-c", "import time; time.sleep(300)"]), Path(sys.argv[1]))
print(child.pid, flush=True)
time.sleep(300)
"""


def _python(code: str) -> Program:
    return Program("python", [sys.executable, "-c", code])


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_program_that_ends_early_shows_the_end_of_its_log(tmp_path: Path) -> None:
    process = Process(_python("print('no such flag'); raise SystemExit(3)"), tmp_path / "log")
    with pytest.raises(StartFailed, match=r"python ended with exit code 3 before it was ready(.|\n)*no such flag"):
        process.wait_ready(lambda: False, SOON_S)


def test_a_program_that_never_becomes_ready_is_reported_with_the_timeout(tmp_path: Path) -> None:
    process = Process(_python("import time; time.sleep(300)"), tmp_path / "log")
    with pytest.raises(StartFailed, match="python was not ready within 0 s"):
        process.wait_ready(lambda: False, 0.1)
    process.stop()
    assert process.exit_code == -signal.SIGTERM


def test_a_program_that_ignores_term_is_killed(tmp_path: Path) -> None:
    process = Process(_python(STUBBORN), tmp_path / "log")
    process.wait_ready(lambda: "up" in (tmp_path / "log").read_text(), SOON_S)
    process.stop(grace_s=0.2)
    assert process.exit_code == -signal.SIGKILL
    process.stop()


def test_children_die_with_their_parent(tmp_path: Path) -> None:
    with subprocess.Popen(  # noqa: S603 - a program of this test
        [sys.executable, "-c", PARENT, tmp_path / "log"], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        wait_until(lambda: _runs(child), SOON_S, "the child to run")
        parent.kill()
        parent.wait()
        wait_until(lambda: not _runs(child), SOON_S, "the child to end with its parent")


def test_a_program_that_may_outlive_us_has_its_own_session_and_can_be_terminated(tmp_path: Path) -> None:
    code = "import os, time; print(os.getsid(0) == os.getpid(), flush=True); time.sleep(300)"
    process = Process(Program("python", [sys.executable, "-c", code], outlive=True), tmp_path / "log")
    process.wait_ready(lambda: "True" in (tmp_path / "log").read_text(), SOON_S)
    os.kill(process.pid, signal.SIGTERM)
    wait_until(lambda: process.exit_code is not None, SOON_S, "it to end")
    assert process.exit_code == -signal.SIGTERM
