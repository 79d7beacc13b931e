"""Exit codes and error messages of `larder fetch` and `larder inspect` as processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rig.scripted_http import reply, scripted
from shared.errors import Unreachable
from shared.exit_codes import failure_line

LARDER = [sys.executable, "-m", "shared.cli"]


def run(*arguments: str, stdout: int = subprocess.PIPE, **environ: str) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": os.environ["PATH"], **environ}
    return subprocess.run(  # noqa: S603 - ourselves
        [*LARDER, *arguments], env=env, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    return folder


def test_a_failure_line_has_no_line_breaks_or_control_characters() -> None:
    assert failure_line(Unreachable("a\nb\x1b[31m\u202e")) == "Unreachable: a b\\x1b[31m\\u202e"
    assert failure_line(ValueError("x")).startswith("InternalError: ValueError: x; ")


def test_a_closed_progress_pipe_is_not_a_failure(model: Path, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    uri = f"local://{model}"
    done = run("fetch", uri, "--to", str(tmp_path / "to"), stdout=writing, LARDER_LOCAL_ROOTS=str(tmp_path))
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "to" / "config.json").exists()


def test_closed_standard_streams_are_not_a_failure(model: Path, tmp_path: Path) -> None:
    command = [*LARDER, "fetch", f"local://{model}", "--to", str(tmp_path / "to")]
    env = {"PATH": os.environ["PATH"], "LARDER_LOCAL_ROOTS": str(tmp_path)}
    done = subprocess.run(["/bin/sh", "-c", '"$@" >&- 2>&-', "sh", *command], env=env, check=False, timeout=60)  # noqa: S603
    assert done.returncode == 0
    assert (tmp_path / "to" / "config.json").exists()


def test_an_inspection_fails_if_its_output_cannot_be_written(model: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = run("inspect", str(model), stdout=full.fileno())
    assert done.returncode == 1
    assert done.stderr.startswith("StoreFailure: the output cannot be written: No space left on device")
    assert done.stderr.count("\n") == 1


def test_the_name_of_the_target_directory_may_be_invalid_utf8(model: Path, tmp_path: Path) -> None:
    to = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    done = run("fetch", f"local://{model}", "--to", to, LARDER_LOCAL_ROOTS=str(tmp_path), PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_inspection_that_hangs_is_ended_by_a_signal(number: signal.Signals) -> None:
    with scripted(lambda _: reply(200, b"", Content_Length="1000")) as hub:
        env = {"PATH": os.environ["PATH"], "HF_ENDPOINT": hub.url}
        command = [*LARDER, "inspect", "hf://org/m"]
        with subprocess.Popen(  # noqa: S603 - ourselves
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            while not hub.asked:
                assert process.poll() is None
            process.send_signal(number)
            _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "Stopped: nothing was changed; run it again\n"


def test_an_inspection_retries_only_temporary_errors() -> None:
    with scripted(lambda _: reply(503, Retry_After="0") if len(hub.asked) < 3 else reply(404)) as hub:
        done = run("inspect", "hf://org/m", HF_ENDPOINT=hub.url)
    assert len(hub.asked) == 3
    assert done.stderr.startswith("SourceNotFound: ")


def test_an_empty_target_directory_is_refused(model: Path, tmp_path: Path) -> None:
    done = run("fetch", f"local://{model}", "--to", "", LARDER_LOCAL_ROOTS=str(tmp_path))
    assert done.returncode == 2
    assert "--to: the path is empty; name a directory" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("status", "--kubeconfig", "{}"), "NoCluster: cannot use the kubeconfig {}: there is no such file; "),
        (("support", "-o", "{}/x"), "StoreFailure: {}/x cannot be written: No such file or directory; "),
        (("demo", "--stop", "1"), "NotFound: process 1 is not a demo; "),
        (("fetch", "hf://a/b", "--to", "{}"), "InvalidSettings: SSL_CERT_FILE: there is no {}; "),
    ],
)
def test_a_failure_prints_one_line_with_its_reason(tmp_path: Path, arguments: tuple[str, ...], line: str) -> None:
    absent = str(tmp_path / "absent")
    done = run(*(argument.format(absent) for argument in arguments), SSL_CERT_FILE=absent)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(line.format(absent))
    assert done.stderr.count("\n") == 1


def test_credentials_in_a_url_are_not_printed() -> None:
    done = run("fetch", "https://user:password@host.test/file", "--to", "/nowhere")
    assert done.stderr.startswith("InvalidURI: https://host.test/file ")
    assert "password" not in done.stderr
