"""Decides when a new node is ready for pods: pure functions of the models that it waits for."""

from collections.abc import Iterator, Mapping
from math import inf, isfinite
from typing import Any

from agent.reconciler.actions import RemoveStartupTaint
from agent.reconciler.observation import Downloading, Failure, Observation, is_present
from shared.api.model_node import Entry
from shared.names import namespace_of

# The second key is for cluster-autoscalers whose flags users cannot set: they know startup taints by this prefix.
STARTUP_TAINTS = frozenset((
    "larder.dev/agent-not-ready",
    "startup-taint.cluster-autoscaler.kubernetes.io/larder-agent-not-ready",
))  # fmt: skip
_EFFECT = "NoSchedule"
_NO_MODEL_NODE = "the controller has not listed the models for this node yet"
_SLOW = "not complete yet"


def is_startup_taint(taint: Mapping[str, Any]) -> bool:
    """Return whether the agent may remove this taint of its Node."""
    return taint.get("key") in STARTUP_TAINTS and taint.get("effect") == _EFFECT


def startup_taint_removal(observation: Observation) -> RemoveStartupTaint | None:
    """Return the removal of the startup taint; None if the Node has none, or still waits for a model."""
    state = observation.startup_taint
    if not state.present or observation.now_s < state.patch_due_s:
        return None
    if observation.own_model_node is None:
        waited_s = observation.now_s - state.since_s
        return RemoveStartupTaint((_NO_MODEL_NODE,)) if waited_s >= state.rule.failure_s else None
    missing = []
    for entry in _missing(observation):
        failure = _lasting_failure(entry, observation)
        if observation.now_s < _waited_for_until_s(entry, failure, observation):
            return None
        missing.append(f"{entry.id} ({failure.cause.reason if failure else _SLOW})")
    return RemoveStartupTaint(tuple(missing))


def _waited_for_until_s(entry: Entry, failure: Failure | None, observation: Observation) -> float:
    """Return when the node stops waiting for a missing entry, on the loop's clock in seconds.

    Namespaced entries have a limit of their own, or anyone who may create them could keep all pods off the node.
    """
    state = observation.startup_taint
    failed_s = failure.since_s + state.rule.failure_s if failure else inf
    return min(failed_s, state.since_s + state.rule.namespaced_s) if namespace_of(entry.id) else failed_s


def startup_taint_dues_s(observation: Observation) -> Iterator[float]:
    """Yield the times at which the startup taint may be removed without any event, on the loop's clock in seconds."""
    state = observation.startup_taint
    if state.present:
        yield state.patch_due_s
        yield state.since_s + state.rule.failure_s
        dues = (_waited_for_until_s(e, _lasting_failure(e, observation), observation) for e in _missing(observation))
        yield from filter(isfinite, dues)


def _missing(observation: Observation) -> Iterator[Entry]:
    """Yield the entries that pods could not find here yet: without their files or labels."""
    for entry in observation.entries.values():
        wanted = is_present(entry) and entry.manifest and entry.priority >= observation.startup_taint.rule.min_priority
        if wanted and not (observation.is_intact(entry.key, entry.manifest) and observation.has_labels(entry.key)):
            yield entry


def _lasting_failure(entry: Entry, observation: Observation) -> Failure | None:
    """Return the failure that keeps an entry away; None while its bytes arrive."""
    match observation.works.get(entry.key):
        case Downloading(has_received=True):
            return None
        case _:
            return observation.failure(entry)
