"""Callers that are not the API server, and files of keys."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import structlog
from fastapi import FastAPI

from controller.admission import reviewed_objects
from controller.admission.callers import Callers, InvalidKeysError, KeyFile
from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.review import read_review
from controller.admission.server import MUTATE_PATH, PATHS, admission_router, path_with
from controller.admission.settings import AdmissionSettings
from controller.manager.asgi import CountRequests
from rig.pods import base_model_pod
from shared.server.limits import PEER_CERTIFICATE
from tests.builders.reviews import admission_review

KEY, OTHER = "k" * 40, "o" * 40
API_SERVER = {
    "subject": ((("organizationName", "system:masters"),), (("commonName", "kube-apiserver"),)),
    "subjectAltName": (("DNS", "apiserver.example.com"), ("IP Address", "127.0.0.1")),
}


async def _post(
    path: str, callers: Callers, certificate: object = None, counted: list[tuple[str, int]] | None = None
) -> tuple[httpx.Response, int]:
    """Send a review, and return the answer with the number of pieces of the body that were read."""
    read = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        read += 1
        yield json.dumps(admission_review("Pod", namespace="default", object=base_model_pod("p", "none"))).encode()

    app = FastAPI(openapi_url=None)
    app.include_router(admission_router(MemoryCatalog(), AdmissionSettings(), callers))
    answering = CountRequests(app, lambda route, status: (counted or []).append((route, status)))

    async def with_state(scope: Any, receive: Any, send: Any) -> None:
        await answering({**scope, "state": {PEER_CERTIFICATE: certificate}}, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=with_state), base_url="https://larder") as client:
        return await client.post(path, content=body()), read


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("key", [OTHER, KEY[:-1], KEY + "k", "k", "%00", "\u00fc" * 40, KEY.upper()])
async def test_without_the_key_the_body_is_not_read(path: str, key: str) -> None:
    answer, read = await _post(path_with(key, path), Callers(lambda: (KEY,)))
    assert (answer.status_code, answer.text, read) == (404, "Not Found", 0)
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("path", [*PATHS, "/admission//mutate-pods", f"/admission/{KEY}"])
async def test_a_request_without_a_key_in_its_path_is_not_found(path: str) -> None:
    answer, read = await _post(path, Callers(lambda: (KEY,)))
    assert (answer.status_code, read) == (404, 0)


@pytest.mark.parametrize("key", [KEY, OTHER])
async def test_every_key_of_a_rotation_is_accepted(key: str) -> None:
    answer, read = await _post(path_with(key, MUTATE_PATH), Callers(lambda: (KEY, OTHER)))
    assert (answer.status_code, read) == (200, 1)


@pytest.mark.parametrize(
    ("names", "certificate", "status"),
    [
        ((), None, 403),
        ((), {}, 403),
        ((), API_SERVER, 200),
        (("kube-apiserver",), API_SERVER, 200),
        (("apiserver.example.com",), API_SERVER, 200),
        (("system:masters",), API_SERVER, 403),
        (("127.0.0.1", "somebody"), API_SERVER, 403),
    ],
)
async def test_a_client_certificate_is_required_in_addition_to_the_key(
    names: tuple[str, ...], certificate: object, status: int
) -> None:
    callers = Callers(lambda: (KEY,), certificate=True, names=frozenset(names))
    answer, read = await _post(path_with(KEY, MUTATE_PATH), callers, certificate)
    assert (answer.status_code, read) == (status, int(status == 200))
    answer, read = await _post(path_with(OTHER, MUTATE_PATH), callers, certificate)
    assert (answer.status_code, read) == (404, 0), "a certificate alone is not enough"


async def test_neither_logs_nor_metrics_show_the_key() -> None:
    counted = list[tuple[str, int]]([("", 0)])
    with structlog.testing.capture_logs() as logs:
        for key in (KEY, OTHER):
            await _post(path_with(key, MUTATE_PATH), Callers(lambda: (KEY,)), counted=counted)
    assert [status for _, status in counted[1:]] == [200, 404]
    assert "ModelNotFound" in str(logs)
    assert not any(key in f"{logs} {counted}" for key in (KEY, OTHER))


def test_a_changed_key_file_is_reloaded_and_an_invalid_one_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{KEY}\n")
    keys = KeyFile(file)
    assert tuple(keys()) == (KEY,)
    for text, expected in [(f"{KEY}\n\n{OTHER}", (KEY, OTHER)), ("too short", (KEY, OTHER)), (OTHER, (OTHER,))]:
        file.write_text(text)
        assert tuple(keys()) == expected
    file.unlink()
    assert tuple(keys()) == (OTHER,)


@pytest.mark.parametrize(
    "text", ["", "\n \n", "short", f"{KEY}\n{'x' * 31}", "a/" * 20, "\u00fc" * 40, "x" * 129, "X" * 48, "-" * 48]
)
def test_keys_that_could_be_guessed_or_do_not_fit_a_path_are_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(InvalidKeysError, match="32 to 128 lowercase letters") as error:
        KeyFile(file)
    assert not text.strip() or text.strip() not in str(error.value)


_READS = re.compile(r'\bspec(?:"\]|", \{\}\))?(?:\.get\(|\[)"(\w+)"')


def test_every_field_of_a_pod_that_admission_reads_is_decoded() -> None:
    folder = Path(reviewed_objects.__file__).parent
    readers = [*folder.glob("*.py"), *folder.glob("pods/*.py"), *folder.glob("model_injector/*.py")]
    texts = [path.read_text() for path in readers if path.stem != "server"]  # server.py reads other objects, too
    read = {field for text in texts for field in _READS.findall(text)}
    assert read >= {"volumes", "nodeSelector", "initContainers", "ephemeralContainers", "nodeName"}
    known = {field.encode_name for field in msgspec.structs.fields(reviewed_objects.ReviewedPodSpec)}
    assert read - known == set()


def test_a_pod_is_decoded_without_the_fields_that_admission_does_not_read() -> None:
    pod = base_model_pod("p", "llama")
    pod["spec"] |= {"nodeName": "a", "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["h"] * 1000}]}
    request = {"uid": "u", "operation": "CREATE", "kind": {"version": "v1", "kind": "Pod"}, "object": pod}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    decoded = read_review(json.dumps(review).encode()).object
    assert decoded is not None
    assert decoded["spec"].keys() == {"containers", "nodeName"}
