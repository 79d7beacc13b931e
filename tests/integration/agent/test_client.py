"""The client against a server over real TLS."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from agent.controller_client import ControllerClient, error_of_response
from shared.api.wire import ClaimCredentials, EntryProgress, Problem, ProgressReport
from shared.errors import AuthDenied, NotGranted, RateLimited, Unreachable
from shared.manifest import File, build_manifest
from tests.integration.agent.fake_controller import FakeController, write_ca

MANIFEST = build_manifest("hf://org/m@r1", "r1", [File("config.json", 3)])


@pytest.fixture
async def client(fake_controller: FakeController, tmp_path: Path) -> AsyncIterator[ControllerClient]:
    (tmp_path / "token").write_text(f"{fake_controller.token}\n")
    client = ControllerClient(fake_controller.url, tmp_path / "token", tmp_path / "ca.pem")
    yield client
    await client.close()


async def test_a_manifest_that_does_not_match_its_digest_is_refused(
    client: ControllerClient, fake_controller: FakeController
) -> None:
    digest = fake_controller.offer(MANIFEST)
    assert await client.manifest(digest) == MANIFEST
    fake_controller.manifests[digest] += b" "
    with pytest.raises(Unreachable, match=digest):
        await client.manifest(digest)


async def test_credentials_are_received_and_progress_is_sent(
    client: ControllerClient, fake_controller: FakeController
) -> None:
    fake_controller.grants["m", "r1"] = (ClaimCredentials("c", {"HF_TOKEN": "x"}, ("hub",)),)
    response = await client.credentials("m", "r1")
    assert response.grants[0].values == {"HF_TOKEN": "x"}
    assert "x'" not in repr(response)
    report = ProgressReport((EntryProgress("m", "r1", 1, 2),))
    await client.report(report)
    assert fake_controller.progress == [report]


async def test_refusals_of_the_controller_raise_not_granted(
    client: ControllerClient, fake_controller: FakeController
) -> None:
    fake_controller.refusals["/v1/credentials"] = Problem("NotGranted", "this node does not list m")
    with pytest.raises(NotGranted, match="does not list m"):
        await client.credentials("m", "r1")
    with pytest.raises(NotGranted):
        await client.manifest("0" * 64)


async def test_a_server_with_an_untrusted_certificate_receives_no_request(
    client: ControllerClient, fake_controller: FakeController, tmp_path: Path
) -> None:
    write_ca(trustme.CA(), tmp_path / "ca.pem")
    with pytest.raises(Unreachable, match="certificate"):
        await client.credentials("m", "r1")
    assert fake_controller.asked == []


async def test_a_replaced_ca_and_token_are_used(client: ControllerClient, tmp_path: Path) -> None:
    right = (tmp_path / "ca.pem").read_bytes()
    write_ca(trustme.CA(), tmp_path / "ca.pem")
    with pytest.raises(Unreachable):
        await client.credentials("m", "r1")
    (tmp_path / "ca.pem").write_bytes(right)
    assert (await client.credentials("m", "r1")).grants == ()
    (tmp_path / "token").write_text("old")
    with pytest.raises(NotGranted):
        await client.credentials("m", "r1")


async def test_a_missing_server_token_or_ca_is_reported_as_unreachable(
    client: ControllerClient, tmp_path: Path
) -> None:
    client.url = "https://127.0.0.1:1"
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        await client.credentials("m", "r1")
    (tmp_path / "token").unlink()
    with pytest.raises(Unreachable, match="token"):
        await client.credentials("m", "r1")
    (tmp_path / "ca.pem").unlink()
    with pytest.raises(Unreachable, match="CA"):
        await client.credentials("m", "r1")


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        (403, b'{"reason": "AuthDenied", "message": "m"}', AuthDenied),
        (403, b"<html>", NotGranted),
        (401, b"", NotGranted),
        (404, b'{"reason": "Strange", "message": ""}', NotGranted),
        (500, b"oops", Unreachable),
        (502, b'{"reason": "Strange", "message": "m"}', Unreachable),
        (429, b"", RateLimited),
    ],
)
def test_each_error_response_maps_to_its_exception(code: int, body: bytes, kind: type[Exception]) -> None:
    assert type(error_of_response(code, body, "3")) is kind
