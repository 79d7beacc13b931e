"""An API server with the Lease of one node, and with pods that can be bound."""

import asyncio
import itertools
import json
import time
from dataclasses import dataclass

from aiohttp import web

from controller.extender.reservations import RESERVED_ANNOTATION
from shared.devices.scheduler import NAMESPACE_LABEL
from shared.json_object import Json
from tests.builders.api_server import listed
from tests.builders.devices import pod_json

OPEN = {NAMESPACE_LABEL: "true"}
_CONFLICT, _INVALID = 409, 422


@dataclass
class LaterClock:
    """A monotonic clock that a test can set forward."""

    passed_s: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.passed_s


class LeaseServer:
    """Keeps the Lease of the node; `written` lists the names of the pods in each successful write."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self._versions = itertools.count(1)
        self.reads: list[str] = []
        self.written: list[set[str]] = []
        self.most_entries = 99
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.may_answer = asyncio.Event()  # a write waits for it after it is done
        self.may_answer.set()
        self.asked = asyncio.Semaphore(0)  # released for each write that arrives

    async def answer(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read() or b"null")
        if request.method == "GET":
            self.reads.append(request.path)
            if request.path.endswith("/pods"):
                return web.json_response(listed())
            if request.path.endswith("/leases"):
                return web.json_response(listed(*filter(None, [self.lease])))
            return web.json_response(self.lease) if self.lease else status(404)
        self.asked.release()
        await self.may_write.wait()
        may_answer, response = self.may_answer, self.write(body)
        await may_answer.wait()
        return response

    def write(self, body: Json) -> web.Response:
        """Create or update the Lease. As in a cluster, an update without a uid creates a Lease that was deleted."""
        wanted, current = body["metadata"], self.lease["metadata"] if self.lease else {}
        uid = current.get("uid", "")
        is_outdated = bool(current) and wanted.get("resourceVersion") != current["resourceVersion"]
        if is_outdated or wanted.get("uid", uid) != uid:
            return status(_CONFLICT)
        entries = json.loads(body["metadata"]["annotations"][RESERVED_ANNOTATION])
        if len(entries) > self.most_entries:
            return status(_INVALID)
        version = next(self._versions)
        self.lease = body | {"metadata": wanted | {"resourceVersion": str(version), "uid": uid or f"lease-{version}"}}
        self.written.append({each["name"] for each in entries})
        return web.json_response(self.lease)


class BindingServer(LeaseServer):
    """Has pods as well. `refusals` has a status by pod name, with which its bindings are answered.

    A binding waits for the pod's event in `held`. Reading a pod in `unreadable` fails.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[str, Json] = {}
        self._pod_versions = itertools.count(3)
        self.refusals: dict[str, int] = {}
        self.held: dict[str, asyncio.Event] = {}
        self.unreadable: set[str] = set()
        self.namespace_labels = OPEN

    def add(self, name: str, *arguments: object) -> Json:
        """Create an unbound pod, as in `pod_json`."""
        self.pods[name] = pod = pod_json(name, *arguments)  # type: ignore[arg-type]
        pod["metadata"]["resourceVersion"] = self.next_version()
        return pod

    def change(self, name: str, change: Json) -> None:
        """Change a pod."""
        pod = self.pods[name]
        pod |= change
        pod["metadata"]["resourceVersion"] = self.next_version()

    def next_version(self) -> str:
        """Return the resourceVersion of the next change to any pod."""
        return str(next(self._pod_versions))

    async def answer(self, request: web.Request) -> web.Response:
        name = request.path.removesuffix("/binding").rpartition("/")[2]
        if "/pods/" in request.path and name not in self.pods:
            return status(404)
        if request.path.endswith("/binding"):
            return await self._bind(self.pods[name], await request.json())
        if request.path.endswith("/pods"):
            return web.json_response(listed(*(pod for pod in self.pods.values() if pod["spec"].get("nodeName"))))
        if request.path == f"/api/v1/namespaces/{name}":
            return web.json_response({"metadata": {"name": name, "labels": self.namespace_labels}})
        if "/pods/" in request.path:
            return status(500) if name in self.unreadable else web.json_response(self.pods[name])
        return await super().answer(request)

    async def _bind(self, pod: Json, body: Json) -> web.Response:
        name = pod["metadata"]["name"]
        if name in self.held:
            await self.held[name].wait()
        if name in self.refusals:
            return status(self.refusals[name])
        if pod["spec"].get("nodeName") or body["metadata"]["uid"] != pod["metadata"]["uid"]:
            return status(_CONFLICT)
        pod["spec"]["nodeName"], pod["metadata"]["annotations"] = (
            body["target"]["name"],
            body["metadata"]["annotations"],
        )
        self.change(name, {})
        return web.json_response({}, status=201)


def status(code: int) -> web.Response:
    """Return a failure as the API server would."""
    return web.json_response({"code": code, "message": "no"}, status=code)
