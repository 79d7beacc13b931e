"""All that is known of one model when its status is decided."""

from dataclasses import dataclass

from controller.placement.demand import Demand, Resolution
from shared.api.meta import StockStatus
from shared.api.model_node import EntryStatus


@dataclass(frozen=True, slots=True)
class TargetNode:
    """A node that shall hold the model. `status` is of the resolved revision; done and total are bytes."""

    name: str
    ready: bool
    agent_ready: bool
    status: EntryStatus | None
    done_bytes: int = 0
    total_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the source could not be resolved the last time."""

    reason: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class ModelView:
    """One model.

    `remaining` are the nodes that still list one that is being deleted, and could answer. `kept` is a resolution that
    is there already, to be taken instead of asking the source: another object's of the same id and source, or one that
    nodes kept from before (`ReuseIfExists`). `found` is what the source answered and no status says yet; `trouble` why
    it did not the last time.
    """

    demand: Demand
    generation: int
    deleted_at: str | None
    has_finalizer: bool
    status: StockStatus
    conflict: Demand | None
    nodes: tuple[TargetNode, ...]
    remaining: tuple[str, ...]
    kept: Resolution | None
    found: Resolution | None
    trouble: Trouble | None
    may_resolve: bool
