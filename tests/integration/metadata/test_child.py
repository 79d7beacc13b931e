"""A child process reads one model; its failure costs only the metadata of that model."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from controller.metadata.read_request import COMMAND, SourceReadRequest
from rig.processes import wait_until
from rig.scripted_http import ScriptedRequest, reply, scripted
from shared.errors import Unreachable
from shared.manifest import File, Manifest, build_manifest
from shared.metadata.reading.confined import ChildLimits
from shared.metadata.reading.process import Child, child_environment
from shared.sources.port import ANONYMOUS, Credentials
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings, settings_from_environ
from shared.uri.model_uri import parse_uri
from tests.builders.model_files import gguf, safetensors

USUAL = ChildLimits()
CONFINED = """
import os, signal, sys, time
from shared.metadata.reading.confined import ChildLimits, confine
confine(ChildLimits(cpu_s=1, memory_bytes=200 * 2**20))
"""


def request_of(
    manifest: Manifest, settings: SourceSettings, limits: ChildLimits = USUAL, **more: object
) -> SourceReadRequest:
    fields = {"credentials": ANONYMOUS, "revision": manifest.revision, "left_out": 0, "limits": limits} | more
    return SourceReadRequest(manifest=manifest.encode(), digest=manifest.digest, settings=settings, **fields)  # type: ignore[arg-type]


def request_for_folder(folder: Path, limits: ChildLimits = USUAL) -> SourceReadRequest:
    settings = SourceSettings(local_roots=(str(folder),))
    return request_of(open_source(parse_uri(f"local://{folder}"), ANONYMOUS, settings).resolve(), settings, limits)


def folder_with(path: Path, **files: bytes) -> Path:
    for name, body in files.items():
        (path / name.replace("__", ".")).write_bytes(body)
    return path


def is_gone(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True


def script(body: str) -> Child:
    return Child(command=(sys.executable, "-c", body))


@pytest.fixture
def read_request(tmp_path: Path) -> SourceReadRequest:
    config = json.dumps({"model_type": "llama"}).encode()
    return request_for_folder(
        folder_with(tmp_path, config__json=config, m__safetensors=safetensors({"w": ("BF16", (9,))}))
    )


def test_a_child_process_returns_the_metadata_of_a_model(read_request: SourceReadRequest) -> None:
    reading = Child(COMMAND).read(read_request)
    assert reading.metadata
    assert (reading.metadata.model_type, reading.metadata.parameters) == ("llama", 9)


@pytest.mark.parametrize(
    ("body", "phrase"),
    [
        ("import os; os.kill(os.getpid(), 11)", "by signal 11"),
        ("import os; os._exit(7)", "with code 7"),
        ("raise ValueError", "with code 1"),
        ("pass", "its result is invalid"),
        ("print('{}')", "its result is invalid"),
        ("print('[' * 4000)", "its result is invalid"),
        ("print({'reason': 'Broken'})", "its result is invalid"),
        ('print(\'{"metadata": {"parameters": "many"}}\')', "its result is invalid"),
        ("import sys; sys.stdout.buffer.write(bytes(range(256)))", "its result is invalid"),
        ("while True: print('x' * 1000)", "more than 4096 bytes"),
        ("import sys; sys.stdin.close()", "its result is invalid"),
        (CONFINED + "while True: pass", "of CPU time"),
        (CONFINED + "bytes(10**9)", "with code 1"),
        (CONFINED + "os.write(os.memfd_create('x'), b'x')", "with code 1"),
    ],
)  # fmt: skip
def test_a_child_that_dies_or_returns_an_invalid_result_is_reported_with_a_reason(
    read_request: SourceReadRequest, body: str, phrase: str
) -> None:
    reading = script(body).read(read_request)
    assert (reading.reason, reading.metadata) == ("MetadataFailed", None)
    assert phrase in reading.message


def test_a_child_killed_from_outside_is_reported_as_interrupted(read_request: SourceReadRequest) -> None:
    reading = script("import os; os.kill(os.getpid(), 9)").read(read_request)
    assert (reading.reason, reading.metadata) == ("MetadataInterrupted", None)
    assert "killed from outside" in reading.message


@pytest.mark.parametrize(
    "body", ["time.sleep(600)", "os.close(1); os.close(2); time.sleep(600)", "os.write(2, bytes(10**7))"]
)
def test_a_hanging_child_is_killed_and_reaped(tmp_path: Path, body: str) -> None:
    limits = ChildLimits(wall_s=1.0)
    child = script(f"import os, time; {body}")
    reading = child.read(request_for_folder(folder_with(tmp_path, config__json=b"{}"), limits))
    assert reading.reason == "MetadataInterrupted"
    assert child._process
    with pytest.raises(ProcessLookupError):
        os.kill(child._process.pid, 0)


def starts_another(reported: Path, pipes: str) -> Child:
    """Return a child that starts a program, writes its process id to a file, and exits first."""
    return script(
        f"import os, subprocess; number = subprocess.Popen(['sleep', '600']{pipes}).pid; "
        f"open('{reported}.new', 'w').write(str(number)); os.rename('{reported}.new', '{reported}')"
    )


def test_a_grandchild_is_killed_with_the_child(read_request: SourceReadRequest, tmp_path: Path) -> None:
    reported = tmp_path / "pid"
    reading = starts_another(reported, ", stdout=-3, stderr=-3").read(read_request)
    assert reading.reason == "MetadataFailed"
    wait_until(lambda: is_gone(reported.read_text()), 60, "the end of the child's program")


def test_a_grandchild_that_holds_the_pipes_is_killed_when_the_read_is_cancelled(
    read_request: SourceReadRequest, tmp_path: Path
) -> None:
    reported = tmp_path / "pid"
    child, outcome = starts_another(reported, ""), list[Exception]()

    def read() -> None:
        try:
            child.read(read_request)
        except Unreachable as error:
            outcome.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    wait_until(reported.exists, 60, "the child to start another")
    assert thread.is_alive()
    child.end()
    thread.join(60)
    assert len(outcome) == 1
    wait_until(lambda: is_gone(reported.read_text()), 60, "the end of the child's program")


def test_a_real_reader_is_stopped_at_its_cpu_or_memory_limit(tmp_path: Path) -> None:
    tokens = {"tokenizer.ggml.tokens": ["" for _ in range(2_000_000)]}
    folder = folder_with(tmp_path, m__gguf=gguf(tokens, {}))
    slow = Child(COMMAND).read(request_for_folder(folder, ChildLimits(cpu_s=0)))
    assert (slow.reason, "CPU time" in slow.message) == ("MetadataFailed", True)
    large = Child(COMMAND).read(request_for_folder(folder, ChildLimits(memory_bytes=2**20)))
    assert (large.reason, "MiB of memory" in large.message) == ("MetadataFailed", True)


def test_a_cancelled_read_ends_at_once_and_later_ones_do_not_start(read_request: SourceReadRequest) -> None:
    asked, answer_now = threading.Event(), threading.Event()

    def answer(_: ScriptedRequest) -> bytes:
        asked.set()
        answer_now.wait(60)
        return reply(200, b"{}")

    child, outcome = Child(COMMAND), list[Exception]()

    def read(read_request: SourceReadRequest) -> None:
        try:
            child.read(read_request)
        except Unreachable as error:
            outcome.append(error)

    with scripted(answer) as hub:
        settings = settings_from_environ({"HF_ENDPOINT": hub.url, "LARDER_ALLOW_ADDRESSES": "127.0.0.1"})
        listed = build_manifest("hf://o/m@c", "c", [File("config.json", 2)])
        thread = threading.Thread(target=read, args=(request_of(listed, settings),))
        thread.start()
        assert asked.wait(60)
        child.end()
        thread.join(60)
        answer_now.set()
    assert len(outcome) == 1
    late = Child(COMMAND)
    late.end()
    with pytest.raises(Unreachable):
        late.read(read_request)


def test_credentials_are_sent_only_to_the_source_and_not_through_the_environment(
    read_request: SourceReadRequest,
) -> None:
    listed = build_manifest("hf://o/m@c", "c", [File("config.json", 22)])
    with scripted(lambda _: reply(200, b'{"model_type": "llama"}'[:22])) as hub:
        settings = settings_from_environ({"HF_ENDPOINT": hub.url, "LARDER_ALLOW_ADDRESSES": "127.0.0.1"})
        Child(COMMAND).read(request_of(listed, settings, credentials=Credentials({"HF_TOKEN": "hf_secret"})))
        assert {asked.headers.get("authorization") for asked in hub.asked} == {"Bearer hf_secret"}
    environ = child_environment({"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x", "LARDER_X": "y", "HTTPS_PROXY": "u:p@h"})
    assert environ.keys() == {"PATH", "MALLOC_ARENA_MAX", "PYTHONUTF8"}
    seen = script("import os, sys; sys.exit('HOME' in os.environ)").read(read_request)
    assert "its result is invalid" in seen.message


def test_a_program_that_cannot_be_started_is_reported_as_unreachable(read_request: SourceReadRequest) -> None:
    with pytest.raises(Unreachable, match="cannot start the process"):
        Child(command=("/does/not/exist",)).read(read_request)


def test_a_child_without_a_valid_order_exits_with_1() -> None:
    done = subprocess.run(COMMAND, input=b"nonsense", capture_output=True, check=False, timeout=60)  # noqa: S603
    assert (done.returncode, done.stdout) == (1, b"")
