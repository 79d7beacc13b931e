"""Unauthenticated callers of the controller's port learn nothing and use no memory."""

import asyncio
import json
import ssl
from pathlib import Path

import pytest

from controller.admission.server import MUTATE_PATH, PATHS, VALIDATE_PATH, path_with
from rig import plain_http
from rig.errors import CallRefused
from rig.larder.objects import refused_group
from rig.larder.programs import ADMISSION_KEY, ControllerProgram
from rig.larder.site import Site
from rig.ports import LOOPBACK

MIB = 2**20
BODY = 74 * MIB // 10
GUESSED = "k" * 48
DELETE = {"uid": "u", "operation": "DELETE", "kind": {"kind": "ClusterBaseModel"}, "name": "m", "oldObject": {}}
REVIEW = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": DELETE}).encode()


@pytest.fixture(scope="module", autouse=True)
def _settled(site: Site) -> None:
    """Let the leader load the libraries of sources first: their memory is not that of the callers."""
    site.wait_ready("ClusterModelCache", site.cache())


def memory(program: ControllerProgram) -> int:
    """Return the peak memory of a process."""
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak) * 1024


async def send(program: ControllerProgram, path: str, body: bytes, *, chunked: bool = False) -> tuple[bytes, int]:
    """Return the response, and the number of bytes that were sent before the connection was closed."""
    trust = ssl.create_default_context(cafile=str(program.ca))
    reader, writer = await asyncio.open_connection(LOOPBACK, program.port, ssl=trust)
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    writer.write(f"POST {path} HTTP/1.1\r\nHost: larder\r\nConnection: close\r\n{length}\r\n\r\n".encode())
    sent = 0
    try:
        for start in range(0, len(body), MIB // 16):
            part = body[start : start + MIB // 16]
            writer.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
            await writer.drain()
            sent += len(part)
        if chunked:
            writer.write(b"0\r\n\r\n")
        answer = await reader.read()
    except (ConnectionError, ssl.SSLError):
        answer = b""
    writer.transport.abort()
    return answer, sent


@pytest.mark.parametrize("chunked", [False, True])
async def test_large_bodies_of_unknown_callers_do_not_use_memory(site: Site, *, chunked: bool) -> None:
    (program,) = site.cluster.controllers[:1]
    before = memory(program)
    body = b'{"request": {"object": {"spec": {"volumes": [' + b"{}," * (BODY // 3)
    for path in (path_with(GUESSED, MUTATE_PATH), path_with(GUESSED, VALIDATE_PATH), *PATHS):
        answers = await asyncio.gather(*(send(program, path, body, chunked=chunked) for _ in range(8)))
        assert all(not answer or b" 404 " in answer.splitlines()[0] for answer, _ in answers)
    assert memory(program) - before < 16 * MIB


async def test_an_oversized_body_is_refused_even_from_callers_that_know_the_path(site: Site) -> None:
    (program,) = site.cluster.controllers[:1]
    before = memory(program)
    path = path_with(ADMISSION_KEY, MUTATE_PATH)
    answers = await asyncio.gather(*(send(program, path, b" " * BODY, chunked=True) for _ in range(8)))
    assert all(not answer or b" 413 " in answer.splitlines()[0] for answer, _ in answers)
    assert memory(program) - before < 64 * MIB


async def test_a_caller_without_the_key_does_not_learn_who_uses_a_model(site: Site) -> None:
    (program,) = site.cluster.controllers[:1]
    for path in (VALIDATE_PATH, path_with(GUESSED, VALIDATE_PATH), path_with("", VALIDATE_PATH)):
        answer, _ = await send(program, path, REVIEW)
        assert answer.startswith(b"HTTP/1.1 404 ")
        assert b"response" not in answer
    answer, _ = await send(program, path_with(ADMISSION_KEY, VALIDATE_PATH), REVIEW)
    assert b'"allowed":true' in answer, "the same review with the path's key"


def test_the_key_does_not_appear_in_logs_or_metrics(site: Site) -> None:
    with pytest.raises(CallRefused, match="storageLimit"):
        site.api.create(*refused_group("wrong"))
    for program in site.cluster.controllers:
        assert ADMISSION_KEY not in program.log.read_text()
        metrics = plain_http.get(f"http://{LOOPBACK}:{program.health_port}/metrics").text
        assert "larder_admission_duration_seconds" in metrics
        assert ADMISSION_KEY not in metrics
