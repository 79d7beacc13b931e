"""The identity that a pod of a workload shares with its replacements. No input or output, no clock."""

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
    """A pod's replacement could not be distinguished from its siblings; the message says what is missing."""


def controller_of(owners: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the owner reference of the controller, or None."""
    return next((owner for owner in owners if owner.get("controller") is True), None)


def identity_of(
    name: str, labels: Mapping[str, str], annotations: Mapping[str, str], controller: Mapping[str, Any]
) -> str:
    """Return the name that a pod shares with its replacements.

    The names of a Job's pods have random suffixes, so their identity is the name of the Job and the index: index 3 of
    Job `train` is `train-3`. Other pods keep their name. If that is generated, the identity is the workload's name, the
    replica type if there is one, and the index.

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
