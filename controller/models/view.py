"""Everything that a decision about one model depends on."""

from dataclasses import dataclass

from controller.placement.demand import Demand, Resolution
from shared.api.meta import ModelStatus
from shared.api.model_node import EntryStatus


@dataclass(frozen=True, slots=True)
class TargetNode:
    """A node that should hold the model.

    Attributes:
        status: The agent's status of the resolved revision.
        done_bytes: Bytes downloaded.
        total_bytes: Bytes to download in total.
        serving: The agent's status of the revision that new pods get, if that is a different one.
        revisions: The revisions that are complete on the node.
        obstacle: Why the model cannot be in the node's ModelNode.
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
class PendingRemoval:
    """Unwanted files of the model that a node still lists; `users` are the pods and ResourceClaims known to keep them.

    `in_use` without `users` means pods that only a live read saw. Bytes describe a removal in progress, which waits
    while the node has no ready agent (`agent_away`).
    """

    node: str
    revision: str
    in_use: bool = False
    users: tuple[str, ...] = ()
    done_bytes: int = 0
    total_bytes: int = 0
    agent_away: bool = False


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why the source could not be resolved at the last attempt, or why a model cannot be placed on a node."""

    reason: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class ResolverAnswer:
    """A source's answer, and the refresh that its object requested when the source was asked."""

    resolution: Resolution
    refresh: str = ""


@dataclass(frozen=True, slots=True)
class Upstream:
    """A source's current revision as found by a drift check, or why the check failed."""

    revision: str
    failure: Obstacle | None = None


@dataclass(frozen=True, slots=True)
class ModelView:
    """One model.

    Attributes:
        remaining: Nodes that still list a model being deleted, and could answer.
        existing: A known resolution to use instead of asking the source: a newer one of another object with the same id
            and source, or one whose files nodes still have (`ReuseIfExists`).
        answer: The source's answer that no status has recorded yet.
        failure: Why the last attempt to resolve failed.
        highest_number: The highest resolution number of all objects that share the model.
        upstream: The result of the last drift check.
        drift_check_in_s: Seconds until the next drift check; None if none is planned.
        users: The pods and InferenceServices that use a model being deleted.
        users_problem: Why they could not be read live.
    """

    demand: Demand
    generation: int
    deleted_at: str | None
    has_finalizer: bool
    status: ModelStatus
    conflict: Demand | None
    nodes: tuple[TargetNode, ...]
    remaining: tuple[str, ...]
    existing: Resolution | None
    answer: ResolverAnswer | None
    failure: Obstacle | None
    may_resolve: bool
    highest_number: int = 0
    removals: tuple[PendingRemoval, ...] = ()
    upstream: Upstream | None = None
    drift_check_in_s: float | None = None
    users: tuple[str, ...] = ()
    users_problem: str = ""

    @property
    def upstream_revision(self) -> str:
        """The revision the source had when last checked; empty if unknown."""
        return self.upstream.revision if self.upstream and not self.upstream.failure else self.demand.upstream

    @property
    def is_drifted(self) -> bool:
        """Whether the source has a different revision from the resolved one."""
        resolution = self.demand.resolution
        return resolution is not None and self.upstream_revision not in ("", resolution.revision)
