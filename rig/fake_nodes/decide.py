"""Decides what a node does next about a pod bound to it."""

import datetime as dt
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from rig.fake_nodes.manifests import is_ready, seconds
from shared.kube.objects import Object

AGENT_LABEL = ("app.kubernetes.io/component", "agent")
PROBE_ANNOTATION = "rig/probe-port"
NEVER_STARTS = "rig/never-starts"  # like a pod whose volume cannot be mounted

_FINISHED = ("Succeeded", "Failed")
_JOB_TRACKING = "batch.kubernetes.io/job-tracking"  # the Job controller removes it once the pod has ended


class BoundPod(Object, frozen=True, kw_only=True):
    """A pod with plain dictionaries, because the rig reads only a few fields."""

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}

    @property
    def node(self) -> str:
        """The node to which the pod is bound; empty if none."""
        return str(self.spec.get("nodeName", ""))

    @property
    def ready(self) -> bool:
        """Whether the pod is Ready."""
        return is_ready(self.status.get("conditions", []))


@dataclass(frozen=True)
class Leave:
    """Do nothing."""


@dataclass(frozen=True)
class Release:
    """Delete the pod's object, because its containers are gone."""


@dataclass(frozen=True)
class PatchPodStatus:
    """Merge this into the status of the pod."""

    patch: dict[str, Any]


Action = Leave | Release | PatchPodStatus


def probe_port(pod: BoundPod) -> int | None:
    """Return the readiness port of an agent; None for pods without a probe."""
    key, value = AGENT_LABEL
    port = pod.metadata.annotations.get(PROBE_ANNOTATION, "")
    return int(port) if pod.metadata.labels.get(key) == value and port.isdecimal() else None


def decide(pod: BoundPod, alive: AbstractSet[str], now: dt.datetime, *, answers: bool) -> Action:
    """Return what a live node does about a pod; `answers` is whether the pod passes its probe."""
    if pod.node not in alive:
        return Leave()
    if pod.metadata.deletion_timestamp:
        if _JOB_TRACKING in pod.metadata.finalizers and pod.status.get("phase") not in _FINISHED:
            return PatchPodStatus({"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Failed"}})
        return Release()
    if pod.status.get("phase") in _FINISHED or NEVER_STARTS in pod.metadata.annotations:
        return Leave()
    if pod.status.get("phase") == "Running" and pod.ready == answers:
        return Leave()
    return PatchPodStatus(running(pod, now, ready=answers))


def running(pod: BoundPod, now: dt.datetime, *, ready: bool) -> dict[str, Any]:
    """Return a merge patch with all containers running, ready or not."""
    flag, started = str(ready), pod.status.get("startTime") or seconds(now)
    ours = ("Initialized", "ContainersReady", "Ready")
    kept = [one for one in pod.status.get("conditions", []) if one.get("type") not in ours]
    added = [_condition("Initialized", "True", now), *(_condition(one, flag, now) for one in ours[1:])]
    containers = [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": started}},
        }
        for container in pod.spec.get("containers", [])
    ]
    return {
        "metadata": {"uid": pod.metadata.uid},
        "status": {
            "phase": "Running",
            "startTime": started,
            "hostIP": "127.0.0.1",
            "podIP": "127.0.0.1",
            "conditions": [*kept, *added],
            "containerStatuses": containers,
        },
    }


def _condition(kind: str, value: str, now: dt.datetime) -> dict[str, str]:
    return {"type": kind, "status": value, "lastTransitionTime": seconds(now)}
