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
    """One model. `remaining` are the nodes that still list it and could still answer; `kept` is a revision that nodes
    kept from before, which `ReuseIfExists` takes; `trouble` is of the last attempt to resolve."""  # noqa: D205, D209 - one thought

    demand: Demand
    generation: int
    deleted_at: str | None
    has_finalizer: bool
    status: StockStatus
    conflict: Demand | None
    nodes: tuple[TargetNode, ...]
    remaining: tuple[str, ...]
    kept: Resolution | None
    trouble: Trouble | None
    may_resolve: bool
