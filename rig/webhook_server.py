"""An HTTPS server in a thread, for the API server to call; records its requests."""

import base64
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trustme
import uvicorn

from rig.ports import LOOPBACK, free_port
from rig.processes import wait_until

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
_START_S = 60.0


@dataclass
class Calls:
    """The requests of the received reviews, in order."""

    reviews: list[dict[str, Any]] = field(default_factory=list)

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return the requests about objects of this name."""
        return [r for r in self.reviews if (r.get("object") or r["oldObject"])["metadata"].get("name") == name]


@dataclass(frozen=True)
class WebhookServer:
    """A running server: its address, its CA certificate, and the recorded requests."""

    url: str
    ca_pem: bytes
    calls: Calls


@contextmanager
def serve(app: App, folder: Path) -> Iterator[WebhookServer]:
    """Serve an ASGI application over TLS on a free loopback port until the block ends."""
    authority, calls, port = trustme.CA(), Calls(), free_port()
    pair = authority.issue_cert(LOOPBACK).private_key_and_cert_chain_pem
    pem = folder / "webhook.pem"
    pem.write_bytes(pair.bytes())
    config = uvicorn.Config(
        _recorded(app, calls), host=LOOPBACK, port=port, ssl_certfile=pem, lifespan="off", ws="none", log_config=None
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="webhook-server")
    thread.start()
    try:
        wait_until(lambda: server.started, _START_S, "the webhook server")
        yield WebhookServer(f"https://{LOOPBACK}:{port}", authority.cert_pem.bytes(), calls)
    finally:
        server.should_exit = server.force_exit = True
        thread.join()


def _recorded(app: App, calls: Calls) -> App:
    """Return the application wrapped so that the requests of reviews are recorded."""

    async def recorder(scope: Message, receive: Receive, send: Send) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        calls.reviews.append(json.loads(body)["request"])
        await app(scope, _replayed(body), send)

    return recorder


def _replayed(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def add_container(name: str) -> App:
    """Return a webhook of another vendor, which adds a container to every pod that lacks it."""

    async def app(_: Message, receive: Receive, send: Send) -> None:
        request = json.loads((await receive())["body"])["request"]
        names = [c["name"] for c in request["object"]["spec"]["containers"]]
        patch = [{"op": "add", "path": "/spec/containers/-", "value": {"name": name, "image": "none"}}]
        response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
        if name not in names:
            encoded = base64.b64encode(json.dumps(patch).encode()).decode()
            response |= {"patchType": "JSONPatch", "patch": encoded}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(review).encode()})

    return app
