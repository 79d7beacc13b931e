"""Turns the fits and scores of nodes into answers for the scheduler: plain functions of data."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from controller.extender.model_preference import ModelPreference
from controller.extender.wire import MAX_PRIORITY, ExtenderFilterResult, HostPriority


class NodeFit(NamedTuple):
    """Whether a pod's devices fit on a node, why not, and the node's score."""

    fits: bool
    reason: str = ""
    score: float = 0.0


# A node's name, whether the devices fit on it, and how well it serves the models. A plain tuple, because one request
# has thousands of them. Equal nodes share one NodeFit.
ScoredNode: TypeAlias = tuple[str, NodeFit, ModelPreference]


def filter_result(nodes: Sequence[ScoredNode]) -> ExtenderFilterResult:
    """Return the nodes that fit, and the reason for each that does not."""
    return ExtenderFilterResult(
        node_names=[name for name, fit, _ in nodes if fit.fits],
        failed_and_unresolvable_nodes={name: fit.reason for name, fit, _ in nodes if not fit.fits},
    )


def priorities(nodes: Sequence[ScoredNode], *, wants_models: bool) -> list[HostPriority]:
    """Return the priority of each node: the share that its score has of the best score for the pod, from 0 to 10.

    For a pod with models, the models come first: devices only break ties between nodes that rank equally for them.

    >>> fits = {"a": NodeFit(fits=True, score=0.5), "b": NodeFit(fits=True, score=1.0), "c": NodeFit(fits=False)}
    >>> nodes = [(name, fit, ModelPreference.NOTHING) for name, fit in fits.items()]
    >>> [(each.host, each.score) for each in priorities(nodes, wants_models=False)]
    [('a', 5), ('b', 10), ('c', 0)]
    """
    best = max((fit.score for fit in {id(fit): fit for _, fit, _ in nodes}.values() if fit.fits), default=0.0)
    found = list[HostPriority]()
    last: tuple[NodeFit, ModelPreference] | None = None
    score = 0
    for name, fit, models in nodes:
        if last is None or fit is not last[0] or models is not last[1]:  # most nodes are like the one before
            last, score = (fit, models), _priority(fit, best, models, wants_models=wants_models)
        found.append(HostPriority(name, score))
    return found


def _priority(fit: NodeFit, best: float, models: ModelPreference, *, wants_models: bool) -> int:
    if not fit.fits:
        return 0
    share = max(0.0, fit.score / best) if best > 0 else 0.0
    return models + round(share) if wants_models else round(MAX_PRIORITY * share)
