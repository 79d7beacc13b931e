"""The agent's HTTP API: health, readiness, metrics, and, on loopback only, the models on the node."""

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Protocol

from fastapi import FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.registry import Collector
from pydantic import BaseModel

from agent.reconciler.activity import Activity
from agent.reconciler.observation import Observation
from agent.reconciler.state_cache import Space
from agent.reconciler.status import entry_statuses
from agent.server.process_usage import ProcessUsage, read_process_usage
from shared.api.model_node import EntryStatus

_FORBIDDEN, _UNAVAILABLE = 403, 503
_LOOPBACK_ONLY = (
    "/v1/models is only served on the pod's loopback address, because it names models; use `kubectl port-forward`\n"
)


class ModelSummary(BaseModel):
    """One entry: its phase, and the progress of a running download."""

    id: str
    revision: str
    phase: str
    reason: str = ""
    message: str = ""
    verified: str = ""
    done_bytes: int = 0
    total_bytes: int = 0
    rate: float = 0.0


class StoreSummary(BaseModel):
    """The store's space in bytes; a limit of 0 means none."""

    used_bytes: int
    reserved_bytes: int
    limit_bytes: int
    disk_free_bytes: int


class ProcessSummary(BaseModel):
    """Resources used by the agent process."""

    memory_bytes: int
    open_files: int


class NodeSummary(BaseModel):
    """The models of one node, its store, and the resources used by the agent."""

    node: str
    models: list[ModelSummary]
    store: StoreSummary
    process: ProcessSummary


class Extension(Protocol):
    """An optional part of the agent that adds metrics and a note to the health check."""

    @property
    def collector(self) -> Collector:
        """The metrics of this part."""
        ...

    def health_note(self) -> str:
        """Return a note for the health check.

        Returns:
            One line, or an empty string.
        """
        ...


@dataclass(frozen=True, slots=True)
class AgentState:
    """The agent's current state, read for each request; `rate_limit` is in bytes per second, 0 for none."""

    node: str
    observation: Callable[[], Observation]
    space: Callable[[], Space]
    activity: Activity
    why_not_alive: Callable[[], str]
    why_not_ready: Callable[[], str]
    rate_limit: Callable[[], float]
    usage: Callable[[], ProcessUsage] = read_process_usage
    extension: Extension | None = None


def build_app(state: AgentState, registry: CollectorRegistry) -> FastAPI:
    """Return the app of one agent."""
    app = FastAPI(title="larder-agent", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/healthz")
    async def healthz() -> Response:
        """Report whether the loop is alive, and the internal errors it survived."""
        notes = state.activity.internal_errors.summary(), state.extension.health_note() if state.extension else ""
        return _health_response(state.why_not_alive(), *notes)

    @app.get("/readyz")
    async def readyz() -> Response:
        """Report whether the store is open, the ModelNode is watched, and the files on disk have been adopted."""
        return _health_response(state.why_not_ready())

    @app.get("/metrics")
    async def metrics() -> Response:
        """Return the metrics."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v1/models")
    async def models(request: Request) -> Response:
        """Return every entry of this node; only to loopback, because it includes names of private models."""
        if not _is_loopback(request.client.host if request.client else ""):
            return Response(_LOOPBACK_ONLY, _FORBIDDEN, media_type="text/plain")
        # As text: a response model would make FastAPI load pydantic.v1 too, just to check the model's type.
        return Response(node_summary(state).model_dump_json(), media_type="application/json")

    return app


def node_summary(state: AgentState) -> NodeSummary:
    """Return the content of `/v1/models`."""
    space, usage = state.space(), state.usage()
    return NodeSummary(
        node=state.node,
        models=[_model(s, state.activity) for s in entry_statuses(state.observation())],
        store=StoreSummary(
            used_bytes=space.used,
            reserved_bytes=space.reserved,
            limit_bytes=space.limit,
            disk_free_bytes=space.disk_free,
        ),
        process=ProcessSummary(memory_bytes=usage.memory_bytes, open_files=usage.open_files),
    )


def _model(status: EntryStatus, activity: Activity) -> ModelSummary:
    shown = ModelSummary(
        id=status.id,
        revision=status.revision,
        phase=status.phase,
        reason=status.reason,
        message=status.message,
        verified=status.verified,
    )
    if progress := activity.running.get(status.key):
        shown.done_bytes, shown.total_bytes, shown.rate = progress.done, progress.total, round(progress.rate())
    return shown


def _is_loopback(address: str) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None  # the form that a dual-stack socket shows
    return (mapped or parsed).is_loopback


def _health_response(failure: str, *notes: str) -> Response:
    lines = "\n".join(filter(None, (failure or "ok", *notes)))
    return Response(f"{lines}\n", _UNAVAILABLE if failure else 200, media_type="text/plain")
