"""Builders of models on nodes."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from controller.manager.actions import WriteSpec
from controller.metadata.decide import Action, WriteMetadata, decide
from controller.metadata.status import described_status
from controller.metadata.view import MetadataView
from controller.placement.demand import Resolution
from shared.api.base_model import BaseModelStatus
from shared.metadata.reading.termination_message import Reading
from tests.builders.claims import LLAMA
from tests.builders.demands import demand

NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
READ = Reading(metadata=LLAMA)
AWAY = Reading(reason="Unreachable", message="no answer")
EMPTY = Reading(reason="MetadataMissing", message="config.json: is not there")


def resolution(revision: str = "r1", manifest: str = "") -> Resolution:
    return Resolution("hf://org/m@main", revision, manifest or f"manifest-{revision}", 10)


def view(**fields: Any) -> MetadataView:
    """A ClusterBaseModel that is resolved, with nothing in its spec."""
    of_demand = ("resolution", "serving", "refreshed", "disabled", "on_claim", "refused", "deleting")
    asked = {name: fields.pop(name) for name in of_demand if name in fields}
    defaults: dict[str, Any] = {"resolution": resolution(), "serving": "r1"}
    wanted = demand(kind="ClusterBaseModel", uid="model-1", uri="hf://org/m@main", **(defaults | asked))
    values: dict[str, Any] = {"demand": wanted, "generation": 1, "status": BaseModelStatus(), "spec": {}} | fields
    return MetadataView(**values)


def reported(actions: list[Action]) -> WriteMetadata:
    """Return the one condition among the actions."""
    (found,) = (a for a in actions if isinstance(a, WriteMetadata))
    return found


def after(seen: MetadataView, now: datetime = NOW) -> MetadataView:
    """Return the model after the writes of one reconcile."""
    spec, status = seen.spec, seen.status
    for action in decide(seen, now):
        if isinstance(action, WriteSpec):
            fields = {**(spec or {}), **action.fields}
            spec = {name: value for name, value in fields.items() if value is not None}
        elif isinstance(action, WriteMetadata):
            status = described_status(status, action.condition, action.metadata, now.isoformat(), seen.generation)
    return replace(seen, spec=spec, status=status, result=None)


def read(seen: MetadataView, reading: Reading = READ, now: datetime = NOW) -> MetadataView:
    """Return the model after a reading was written to its status."""
    return after(replace(seen, result=reading), now)


def moved(seen: MetadataView, revision: str) -> MetadataView:
    """Return the model after its serving revision changed."""
    return replace(seen, demand=replace(seen.demand, resolution=resolution(revision), serving=revision))
