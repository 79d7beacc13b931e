"""Explains why the pods of any object, such as an InferenceService, do not run. No input or output, no clock."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from controller.cli.why.findings import Diagnosis, Finding, Severity, fact, ordered, some, stop, wait
from controller.cli.why.kinds import ObservedPod, WorkloadEvent
from controller.cli.why.nodes import leader_findings
from controller.cli.why.view import ClusterView, PodSurroundings
from controller.cli.why.workloads import ObservedWorkload, pod_findings, why_workload
from shared.kube.objects import Object

_MAX_EVENTS = 3
_MAX_WORKLOADS = 5


class ObservedObject(Object, frozen=True, kw_only=True):
    """An object of any kind, whose status may have any form."""

    status: Any = None

    @property
    def conditions(self) -> list[Mapping[str, Any]]:
        """The conditions; empty if the status has none in the usual form."""
        listed = self.status.get("conditions") if isinstance(self.status, dict) else None
        return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


@dataclass(frozen=True, slots=True)
class ObservedTree:
    """An object of any kind, and its dependents by owner references.

    Args:
        kind: Its kind.
        root: The object.
        workloads: The Deployments, StatefulSets, Jobs and lone ReplicaSets below it.
        pods: The pods below it that belong to none of those.
        warnings: Warnings about it and its dependents, except pods and workloads; newest first.
        around: By uid, the surroundings of those `pods` that are explained one by one.
        hidden: The kinds that this user may not list.
    """

    kind: str
    root: ObservedObject
    workloads: tuple[ObservedWorkload, ...] = ()
    pods: tuple[ObservedPod, ...] = ()
    warnings: tuple[WorkloadEvent, ...] = ()
    around: Mapping[str, PodSurroundings] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()


def why_object(found: ObservedTree, cluster: ClusterView) -> Diagnosis:
    """Return the diagnosis of an object of any kind."""
    meta = found.root.metadata
    below = [(workload, why_workload(workload, cluster)) for workload in found.workloads]
    below.sort(key=lambda one: -len([f for f in one[1].findings if f.severity != Severity.FACT]))
    findings = [*leader_findings(cluster), *_status_findings(found), *_warnings(found)]
    for workload, diagnosis in below[:_MAX_WORKLOADS]:
        prefix = f"{workload.kind} {workload.body.metadata.name}"
        reported = (f for f in diagnosis.findings if f.about != "controller")
        findings += [replace(finding, about=f"{prefix}: {finding.about}") for finding in reported]
    if len(below) > _MAX_WORKLOADS:
        names = (f"{workload.kind} {workload.body.metadata.name}" for workload, _ in below[_MAX_WORKLOADS:])
        findings.append(fact("workloads", "More", f"not shown: {some(names)}"))
    findings += pod_findings(found.pods, found.around, cluster)
    if found.hidden:
        findings.append(fact("objects", "NotShown", f"you may not list {some(found.hidden)} in this namespace"))
    title = f"{found.kind} {meta.namespace}/{meta.name}" if meta.namespace else f"{found.kind} {meta.name}"
    return Diagnosis(title, ordered(findings), failed=any(diagnosis.failed for _, diagnosis in below))


def _status_findings(found: ObservedTree) -> Iterator[Finding]:
    """Yield what the object reports about itself, and whether it owns nothing."""
    nothing = not found.workloads and not found.pods
    if found.root.metadata.deletion_timestamp is not None:
        yield wait("status", "Deleting", "it is being deleted; its finalizers or the objects it owns may block that")
    reported: set[str] = set()
    for condition in found.root.conditions:
        name, status = str(condition.get("type", "")), str(condition.get("status", ""))
        message = str(condition.get("message", "") or "")
        if not _is_bad(name, status) or message in reported:
            continue
        reported.add(message)
        to_finding = stop if name == "Failed" or (nothing and message) else wait
        yield to_finding("status", str(condition.get("reason", "") or name), message or f"condition {name} is {status}")
    if nothing:
        yield wait("pods", "NoPods", "no workload or pod belongs to it; check the operator that handles its kind")


def _is_bad(condition: str, status: str) -> bool:
    """Return whether a condition reports a problem; for unknown kinds, this is a guess."""
    return (condition == "Failed" and status == "True") or (
        (condition.endswith("Ready") or condition == "Available") and status == "False"
    )


def _warnings(found: ObservedTree) -> Iterator[Finding]:
    messages: set[str] = set()
    for event in found.warnings:
        if event.message not in messages and len(messages) < _MAX_EVENTS:
            messages.add(event.message)
            yield wait("event", event.reason, event.message)
