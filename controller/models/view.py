"""All that is known of one model when its status is decided."""

from dataclasses import dataclass

from controller.placement.demand import Demand, Resolution
from shared.api.meta import StockStatus
from shared.api.model_node import EntryStatus


@dataclass(frozen=True, slots=True)
class TargetNode:
    """A node that shall hold the model. `status` is of the resolved revision; done and total are bytes.

    `serving` is of the revision that new pods get, where that is another; `revisions` are complete on the node.
    `obstacle`: why it cannot be in the node's ModelNode.
    """

    name: str
    ready: bool
    agent_ready: bool
    status: EntryStatus | None
    done_bytes: int = 0
    total_bytes: int = 0
    serving: EntryStatus | None = None
    revisions: tuple[str, ...] = ()
    obstacle: "Obstacle | None" = None


@dataclass(frozen=True, slots=True)
class Leaving:
    """Files of the model that a node lists and nobody wants there: `users` are pods that keep them, as far as known.

    `in_use` without users: pods that memory does not have, seen by a live read. Bytes are of a removal that runs.
    """

    node: str
    revision: str
    in_use: bool = False
    users: tuple[str, ...] = ()
    done_bytes: int = 0
    total_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why the source could not be resolved the last time, or a model not be placed on a node."""

    reason: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class ResolverAnswer:
    """What a source answered, and the refresh that its object asked for when the source was asked."""

    resolution: Resolution
    refresh: str = ""


@dataclass(frozen=True, slots=True)
class Upstream:
    """What a source has now, as a look at it found; why it does not say, where there is a trouble."""

    revision: str
    trouble: Obstacle | None = None


@dataclass(frozen=True, slots=True)
class ModelView:
    """One model.

    `remaining` are the nodes that still list one that is being deleted, and could answer. `kept` is a resolution that
    is there already, to be taken instead of asking the source: a newer one of another object with the same id and
    source, or one that nodes kept from before (`ReuseIfExists`); `highest` is the number of the newest of them all.
    `found` is what the source answered and no status says yet; `trouble` why it did not the last time.
    `upstream` is what a look at the source found since; the next look is in `look_in_s` seconds, None where there is
    none to come. `users` are the pods and InferenceServices that use one that is being deleted.
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
    found: ResolverAnswer | None
    trouble: Obstacle | None
    may_resolve: bool
    highest: int = 0
    leaving: tuple[Leaving, ...] = ()
    upstream: Upstream | None = None
    look_in_s: float | None = None
    users: tuple[str, ...] = ()

    @property
    def upstream_revision(self) -> str:
        """The revision that the source had when it was last seen; empty where nobody knows."""
        return self.upstream.revision if self.upstream and not self.upstream.trouble else self.demand.upstream

    @property
    def is_drifted(self) -> bool:
        """Whether the source has another revision than the one that was resolved."""
        resolution = self.demand.resolution
        return resolution is not None and self.upstream_revision not in ("", resolution.revision)
