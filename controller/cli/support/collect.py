"""Reads an installation into a bundle; what cannot be read is noted there, and the rest is still read."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.cli.support import pieces, summary
from controller.cli.support.bundle import Bundle
from controller.cli.support.line_budget import LineBudget
from controller.cli.support.pieces import Log, Piece
from controller.cli.support.redact import redact_text
from controller.cli.support.trim import reports_problem
from shared.api.core import pods_in
from shared.json_object import Json
from shared.kube.collection import decode, pages
from shared.kube.errors import Expired, KubeError, Refused
from shared.kube.transport import Kube

_PAGE = 100
_MAX_READ_BYTES = 256 * 2**20  # per collection
_METRICS_BYTES = 2**20
_METRICS_S = 10.0


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Limits on logs: lines and bytes per container, and bytes in total."""

    lines: int = 2000
    log_bytes: int = 2 * 2**20
    logs_bytes: int = 64 * 2**20


@dataclass(slots=True)
class Collector:
    """Fills one bundle; `version` is that of the command."""

    kube: Kube
    bundle: Bundle
    namespace: str
    version: str
    limits: LogLimits = field(default_factory=LogLimits)

    async def run(self) -> None:
        """Read everything. Raises KubeError only if the API server does not answer at all."""
        server = await self._server()
        declared = [m | {"kind": k} for k, piece in pieces.MODELS.items() for m in await self._collection(piece)]
        lines, agents, failing = [summary.NODE_HEAD], Counter[str](), set[str]()

        def note(model_node: Json) -> None:
            lines.append(summary.node_line(model_node))
            agents[(model_node.get("status") or {}).get("agentVersion", "") or "none"] += 1
            if reports_problem(model_node):
                failing.add(model_node["metadata"]["name"])

        await self._collection(pieces.MODEL_NODES, note)
        self._text("objects/modelnodes.tsv", "one line of figures per ModelNode", "\n".join(lines))
        try:
            self._text("status.txt", "what `larder status -A -o wide` prints", summary.status_text(declared))
        except msgspec.ValidationError as error:
            self._record_missing("status.txt", f"a model has an unexpected form: {error}")
        await self._collection(pieces.nodes(declared))
        found = {p.file: await self._collection(p) for p in pieces.namespace_pieces(self.namespace)}
        for piece in pieces.cluster_pieces():
            await self._collection(piece)
        workloads = found["namespace/deployments.jsonl"] + found["namespace/daemonsets.jsonl"]
        about = summary.versions(server, self.version, workloads, agents)
        self._json("versions.json", "versions of the cluster, the chart, the images and the agents", about)
        self._json("settings.json", "the environment of our containers", summary.settings(workloads))
        chosen = pieces.choose_pods(found["namespace/pods.jsonl"], frozenset(failing))
        await self._logs(log for pod in chosen for log in pieces.logs_of(pod))
        for pod in chosen:
            await self._metrics(pod)

    async def _server(self) -> Json:
        try:
            return decode(await self.kube.request("GET", "/version"), Json)
        except Refused as error:
            self.bundle.record_missing("/version", str(error))
            return {}

    async def _collection(self, piece: Piece, note: Callable[[Json], None] | None = None) -> list[Json]:
        """Add a collection to the bundle; return its objects, unless `note` consumes them one by one."""
        budget, whole = LineBudget(piece.max_bytes), list[Json]()
        try:
            async for item in self._items(piece):
                urgent = reports_problem(item)
                if budget.has_room(urgent=urgent):
                    budget.put(msgspec.json.encode(piece.keep(item)) + b"\n", urgent=urgent)
                whole.append(item) if note is None else note(item)
        except KubeError as error:
            self._record_missing(piece.file, f"GET {piece.path}: {error.reason}: {error}")
        except (KeyError, TypeError, AttributeError) as error:
            self._record_missing(piece.file, f"GET {piece.path}: an object has an unexpected form: {error!r}")
        if budget.left_out:
            self._record_missing(piece.file, f"{budget.left_out} objects left out for lack of space")
        self.bundle.add(piece.file, piece.what, b"".join(budget), budget.left_out)
        return whole

    async def _items(self, piece: Piece) -> Any:  # noqa: ANN401 - an asynchronous iterator of JSON
        read_bytes = 0
        try:
            async for page in pages(self.kube, piece.path, piece.query, size=_PAGE):
                for raw in page.items:
                    read_bytes += len(bytes(raw))
                    item = decode(raw, Json)
                    if not piece.names or item["metadata"]["name"] in piece.names:
                        yield item
                if read_bytes > _MAX_READ_BYTES:
                    self._record_missing(piece.file, f"GET {piece.path}: stopped after {read_bytes} bytes")
                    return
        except Expired as error:
            self._record_missing(piece.file, f"GET {piece.path}: took too long, so the rest is missing: {error}")

    async def _logs(self, logs: Iterable[Log]) -> None:
        left_bytes = self.limits.logs_bytes
        for log in logs:
            if left_bytes <= 0:
                self._record_missing(
                    log.file, f"left out: earlier logs used up the {self.limits.logs_bytes} bytes for logs"
                )
                continue
            path = f"{pods_in(self.namespace)}/{log.pod}/log"
            query = {
                "container": log.container, "previous": str(log.previous).lower(), "timestamps": "true",
                "tailLines": str(self.limits.lines), "limitBytes": str(self.limits.log_bytes),
            }  # fmt: skip
            try:
                data = await self.kube.request("GET", path, query)
            except KubeError as error:
                self._record_missing(log.file, f"{error.reason}: {error}")
                continue
            left_bytes -= len(data)
            self._text(log.file, f"the last {self.limits.lines} lines", data.decode(errors="replace"))

    async def _metrics(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        file, lines, left_bytes = f"metrics/{name}.txt", list[bytes](), _METRICS_BYTES
        path = f"{pods_in(self.namespace)}/{name}:{pieces.metrics_port(pod)}/proxy/metrics"
        try:
            async with asyncio.timeout(_METRICS_S), self.kube.watch(path, {}, _METRICS_S) as stream:
                async for line in stream:
                    left_bytes -= len(line) + 1
                    if left_bytes < 0:
                        self._record_missing(file, f"cut after {_METRICS_BYTES} bytes")
                        break
                    lines.append(line)
        except KubeError as error:
            self._record_missing(file, f"GET {path}: {error.reason}: {error}")
            return
        except TimeoutError:
            self._record_missing(file, f"GET {path}: no complete answer within {_METRICS_S:.0f} s")
            return
        self._text(file, "metrics, through the API server", b"\n".join(lines).decode(errors="replace"))

    def _record_missing(self, what: str, reason: str) -> None:
        self.bundle.record_missing(what, redact_text(reason))

    def _json(self, file: str, what: str, value: Json) -> None:
        self.bundle.add(file, what, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")

    def _text(self, file: str, what: str, text: str) -> None:
        self.bundle.add(file, what, redact_text(text.rstrip("\n") + "\n").encode())
