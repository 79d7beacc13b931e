"""Decides from a view of a node what its ModelNode should be. No input or output, no clock.

Proving that files may be removed costs requests. So a view starts with the contents of the caches, and a decision may
ask for more. `decide` is then called again on the same view with the answer added:

    from caches ─ ListUsers ─► + `users`, a live list ─ ConfirmUnwanted ─► + `unwanted`, by live reads ─► WriteModelNode

Most runs remove nothing and write at once. If drivers offer models to ResourceClaims, `ListResourceSlices` comes first
for draining entries. For files without an entry, the live reads come before the list of pods.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from controller.manager.actions import Requeue
from controller.nodes.entry_states import RemovalTiming
from controller.nodes.evict import EvictionStep, eviction_step
from controller.nodes.facts import Facts, derive_facts
from controller.nodes.removal import RemovalStep, depends_on_users, removal_steps, removals_to_confirm
from controller.nodes.view import NodeView, foreign_model_node_message
from controller.state.keys import EntryKey
from shared.api.model_cache_node_group import LEAST_RECENTLY_USED, NEVER
from shared.api.model_node import ModelNodeSpec

_OFFERS_POLL_S = 1.0  # a driver needs less than a second


@dataclass(frozen=True, slots=True)
class ReplaceModelNode:
    """The ModelNode belongs to a deleted Node, and another Node has taken its name."""


@dataclass(frozen=True, slots=True)
class CreateModelNode:
    """The node has no ModelNode yet."""

    spec: ModelNodeSpec


@dataclass(frozen=True, slots=True)
class WriteModelNode:
    """The spec of the ModelNode has to change."""

    spec: ModelNodeSpec


@dataclass(frozen=True, slots=True)
class ListResourceSlices:
    """The driver may still offer draining entries to ResourceClaims: list the node's devices, then decide again."""


@dataclass(frozen=True, slots=True)
class ListUsers:
    """The next step depends on the node's pods: list them live, then decide again."""


@dataclass(frozen=True, slots=True)
class ConfirmUnwanted:
    """The caches allow removing files: read the objects of `entries_to_confirm` live, then decide again."""


Action: TypeAlias = (
    ReplaceModelNode | CreateModelNode | WriteModelNode | ListResourceSlices | ListUsers | ConfirmUnwanted | Requeue
)


def decide(view: NodeView, now: datetime, timing: RemovalTiming) -> list[Action]:
    """Return the actions, in order; none if the ModelNode is up to date."""
    model_node = view.model_node
    if model_node is not None and not model_node.may_belong_to(view.uid):
        return [] if foreign_model_node_message(model_node, view.uid) else [ReplaceModelNode()]
    if view.offered and not view.slices_read:
        return [ListResourceSlices()]
    facts = derive_facts(view, now, timing)
    eviction = eviction_step(facts)
    if view.users is None and (eviction.needs_users or depends_on_users(facts)):
        return [ListUsers()]
    if view.unwanted is None and (eviction.to_confirm or removals_to_confirm(facts)):
        return [ConfirmUnwanted()]
    removals = removal_steps(facts)
    spec = _spec(facts, eviction, removals)
    if model_node is None:
        return [CreateModelNode(spec)] if view.demands or view.limits.storage_bytes else []
    actions: list[Action] = [WriteModelNode(spec)] if spec != model_node.spec else []
    delays_s = [eviction.requeue_s, *(step.requeue_s for step in removals), *view.held.values()]
    delays_s += [_OFFERS_POLL_S] if view.offered else []
    requeue_s = min((s for s in delays_s if s is not None), default=None)
    return actions if requeue_s is None else [*actions, Requeue(requeue_s)]


def entries_to_confirm(view: NodeView, now: datetime, timing: RemovalTiming) -> frozenset[EntryKey]:
    """Return the entries whose files are removed next if live reads confirm that no object wants or protects them."""
    facts = derive_facts(view, now, timing)
    return removals_to_confirm(facts) | eviction_step(facts).to_confirm


def _spec(facts: Facts, eviction: EvictionStep, removals: list[RemovalStep]) -> ModelNodeSpec:
    limits = facts.view.limits
    remaining = {**facts.wanted, **eviction.changed, **facts.kept}
    leaving = [step.entry for step in removals if step.entry is not None]
    return ModelNodeSpec(
        node_uid=facts.view.uid,
        storage_limit=limits.storage_bytes,
        bandwidth_limit=limits.bandwidth_bytes_s,
        eviction_policy=LEAST_RECENTLY_USED if limits.evicts else NEVER,
        entries=sorted([*remaining.values(), *leaving], key=lambda e: e.key),
    )
