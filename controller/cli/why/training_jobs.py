"""Explains why the pods of a TrainingJob do not run. No input or output, no clock."""

from collections.abc import Iterator, Mapping
from typing import Any

from controller.cli.why.findings import Diagnosis, Finding, fact, ordered, some, stop, wait
from controller.cli.why.nodes import leader_findings
from controller.cli.why.objects import ObservedTree
from controller.cli.why.remedies import remedy
from controller.cli.why.view import ClusterView
from controller.cli.why.workloads import pod_findings
from controller.trainingjobs.report import IN_PROGRESS, READY

_STATES = (
    ("active", "run"),
    ("succeeded", "succeeded"),
    ("failed", "failed"),
    ("waitingForVolumes", "wait for claims"),
)
_REMEDIES = {"DeadlineExceeded": "recreate the job, perhaps with a longer activeDeadlineSeconds"}


def why_training_job(found: ObservedTree, cluster: ClusterView) -> Diagnosis:
    """Return the diagnosis of a TrainingJob: its status, the state of its roles, and what blocks its pods."""
    meta = found.root.metadata
    title = f"TrainingJob {meta.namespace}/{meta.name}"
    conditions = {str(one.get("type")): one for one in found.root.conditions}
    ended = [kind for kind in ("Succeeded", "Failed") if conditions.get(kind, {}).get("status") == "True"]
    findings = [*leader_findings(cluster), _of_status(title, found, conditions.get(READY, {})), *_roles(found)]
    if not ended:
        findings += pod_findings(found.pods, found.around, cluster)
    if found.hidden:
        findings.append(fact("objects", "NotShown", f"you may not list {some(found.hidden)} in this namespace"))
    return Diagnosis(title, ordered(findings), failed=ended == ["Failed"])


def _of_status(title: str, found: ObservedTree, ready: Mapping[str, Any]) -> Finding:
    """Return the finding for the condition Ready, whose message names claims, queue position or cause."""
    reason, message = str(ready.get("reason", "")), str(ready.get("message", "") or "")
    if found.root.metadata.deletion_timestamp is not None:
        return wait(title, "Deleting", "it is being deleted, and its pods and claims with it")
    if not reason or ready.get("observedGeneration", 0) < found.root.metadata.generation:
        advice = "check that a controller replica is the leader, and that trainingJobs.enabled is true in the chart"
        return wait(title, "NotObserved", "the controller has not observed its latest spec", advice)
    if ready.get("status") == "True":
        return fact(title, reason, message)
    if reason == "Suspended":
        return stop(title, reason, message, "set spec.runPolicy.suspend to false")
    if reason in IN_PROGRESS:
        return wait(title, reason, message)
    return stop(title, reason, message, remedy(reason, _REMEDIES))


def _roles(found: ObservedTree) -> Iterator[Finding]:
    """Yield the number of replicas by role and state."""
    status = found.root.status if isinstance(found.root.status, Mapping) else {}
    roles = status.get("replicaStatuses")
    for role, counts in sorted(roles.items()) if isinstance(roles, Mapping) else ():
        states = [f"{counts.get(field, 0)} {label}" for field, label in _STATES if counts.get(field)]
        yield fact(f"role {role}", "Replicas", ", ".join(states) or "no pods")
