"""What stays the same when a pod of a workload is replaced by another. No input or output, no clock."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

JOB_INDEX = "batch.kubernetes.io/job-completion-index"  # an annotation, and since 1.28 also a label
REPLICA_TYPE = "training.kubeflow.org/replica-type"
INDEX_LABELS = (
    "apps.kubernetes.io/pod-index",
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
)
IDENTITY_KEYS = frozenset((JOB_INDEX, REPLICA_TYPE, *INDEX_LABELS))
_INDEX = re.compile(r"[0-9]{1,9}")
_ORDINAL_NAME = re.compile(r".*-[0-9]{1,9}", re.DOTALL)
_TYPE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")


class NoIdentity(ValueError):
    """Nothing distinguishes a pod's successor from its siblings; the message says what is missing."""


def controller_of(owners: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the owner reference of the controller, or None."""
    return next((owner for owner in owners if owner.get("controller") is True), None)


def identity_of(
    name: str, labels: Mapping[str, str], annotations: Mapping[str, str], controller: Mapping[str, Any]
) -> str:
    """Return the name that a pod shares with those that replace it.

    A pod of a Job gets a random suffix, so it is the name of the Job with the index: Job `train`, index 3 is `train-3`.
    Pods of other workloads keep their name. One whose name is generated has the workload's with the index, and with the
    type of the replica if it has one.

    Args:
        name: Name of the pod; empty if the API server is to generate it.
        labels: Labels of the pod.
        annotations: Annotations of the pod.
        controller: The owner reference of its controller.

    Raises:
        NoIdentity: It has no index.
    """
    kind, owner = str(controller.get("kind", "")), str(controller.get("name", ""))
    if kind == "Job" and str(controller.get("apiVersion", "")).startswith("batch/"):
        index = labels.get(JOB_INDEX, annotations.get(JOB_INDEX, ""))
        if not _INDEX.fullmatch(index):
            raise NoIdentity(
                f"the pods of Job {owner} have no index, so a pod that replaces another could not get its claims back; "
                "set completionMode: Indexed in the Job"
            )
        return f"{owner}-{index}"
    index = next((labels[label] for label in INDEX_LABELS if _INDEX.fullmatch(labels.get(label, ""))), "")
    if name and (index or (name.startswith(f"{owner}-") and _ORDINAL_NAME.fullmatch(name))):
        return name
    if index:
        replica = labels.get(REPLICA_TYPE, "").lower()
        return f"{owner}-{replica}-{index}" if _TYPE.fullmatch(replica) else f"{owner}-{index}"
    raise NoIdentity(
        f"the pods of {kind} {owner} have no index, so a pod that replaces another could not get its claims back; use "
        "a Job with completionMode: Indexed, a JobSet, a StatefulSet, or another workload that numbers its pods"
    )
