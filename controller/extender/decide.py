"""What the scheduler is told, from the fits and scores of the nodes: plain functions of data."""

from collections.abc import Sequence
from typing import NamedTuple

from controller.extender.model_preference import ModelPreference
from controller.extender.wire import MAX_PRIORITY, ExtenderFilterResult, HostPriority


class ScoredNode(NamedTuple):
    """A node of which the scheduler asks: whether the devices fit, why not, their score, and what models are there."""

    name: str
    fits: bool = True
    reason: str = ""
    score: float = 0.0
    models: ModelPreference = ModelPreference.NOTHING


def filter_result(nodes: Sequence[ScoredNode]) -> ExtenderFilterResult:
    """Return the nodes that fit, and for each other its reason."""
    return ExtenderFilterResult(
        node_names=[node.name for node in nodes if node.fits],
        failed_and_unresolvable_nodes={node.name: node.reason for node in nodes if not node.fits},
    )


def priorities(nodes: Sequence[ScoredNode], *, wants_models: bool) -> list[HostPriority]:
    """Return the priority of each node: its score over the best of the pod.

    Where the pod has models, these come first: the devices decide only between nodes that are equal in that.

    >>> nodes = [ScoredNode("a", score=0.5), ScoredNode("b", score=1.0), ScoredNode("c", fits=False)]
    >>> [(each.host, each.score) for each in priorities(nodes, wants_models=False)]
    [('a', 5), ('b', 10), ('c', 0)]
    """
    best = max((node.score for node in nodes if node.fits), default=0.0)
    known: dict[tuple[bool, float, ModelPreference], int] = {}  # most nodes are equal
    found = []
    for name, fits, _, score, models in nodes:
        key = (fits, score, models)
        if key not in known:
            known[key] = _priority(score / best if best > 0 else 0.0, models, wants_models=wants_models) if fits else 0
        found.append(HostPriority(name, known[key]))
    return found


def _priority(share: float, models: ModelPreference, *, wants_models: bool) -> int:
    share = max(0.0, share)
    return models + round(share) if wants_models else round(MAX_PRIORITY * share)
