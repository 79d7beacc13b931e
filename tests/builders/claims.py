"""Builders of models on claims."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from controller.claims.decide import Action, WriteClaimStatus, decide
from controller.claims.read_request import request_of
from controller.claims.status import claim_status
from controller.claims.view import ClaimView
from controller.jobs.observed_jobs import (
    ClaimPod,
    ClaimPodSpec,
    ClaimSource,
    ClaimVolume,
    ContainerState,
    ContainerStatus,
    Job,
    JobPod,
    JobStatus,
    PodStatus,
    Terminated,
)
from controller.placement.claim_place import place_of
from shared.api.base_model import BaseModelStatus
from shared.api.core import ClaimSpec, ClaimStatus, ObservedCondition, PersistentVolumeClaim
from shared.kube.objects import Meta
from shared.metadata.model_metadata import Metadata
from shared.metadata.reading.termination_message import Reading, encode_reading
from tests.builders.demands import demand

NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
LLAMA = Metadata(
    model_type="llama",
    architectures=("LlamaForCausalLM",),
    framework="transformers",
    framework_version="4.50.0",
    format="safetensors",
    context_length=8192,
    parameters=7_000_000_000,
    parameters_from="headers",
    capabilities=("TEXT_TO_TEXT",),
    size_bytes=14_000_000_000,
)
FILLED: Mapping[str, Any] = {
    "modelType": "llama",
    "modelArchitecture": "LlamaForCausalLM",
    "modelFormat": {"name": "safetensors"},
    "modelFramework": {"name": "transformers", "version": "4.50.0"},
    "modelParameterSize": "7B",
    "modelCapabilities": ["TEXT_TO_TEXT"],
    "maxTokens": 8192,
}
WRITTEN = {name: {"name": "mine"} if isinstance(v, dict) else "mine" for name, v in FILLED.items()}


def claim(phase: str = "Bound", *modes: str, uid: str = "claim-1", **fields: Any) -> PersistentVolumeClaim:
    spec = ClaimSpec(
        access_modes=list(modes or ("ReadWriteMany",)),
        volume_name=fields.pop("volume", "pv-1"),
        volume_mode=fields.pop("volume_mode", "Filesystem"),
    )
    metadata = Meta(name="data", namespace="team", uid=uid, **fields)
    return PersistentVolumeClaim(metadata=metadata, spec=spec, status=ClaimStatus(phase=phase))


def view(**fields: Any) -> ClaimView:
    """A ClusterBaseModel at `models/llama` of a bound claim `team/data`, with nothing in its spec."""
    asked = {name: fields.pop(name) for name in ("refresh", "refreshed") if name in fields}
    uri = fields.pop("uri", "pvc://team/data/models/llama")
    model = demand(kind="ClusterBaseModel", uid="model-1", uri=uri, on_claim=True, **asked)
    status = fields.pop("status", BaseModelStatus())
    defaults: dict[str, Any] = {
        "demand": model,
        "generation": 1,
        "place": place_of(uri, ""),
        "skip": False,
        "spec": {},
        "status": status,
        "claim": claim(),
    }
    return ClaimView(**(defaults | fields))


def job(end: ObservedCondition | None = None, age_s: float = 0, **status: Any) -> Job:
    stamp = (NOW - timedelta(seconds=age_s)).isoformat()
    metadata = Meta(name="larder-extract-1", namespace="team", creation_timestamp=stamp)
    return Job(metadata=metadata, status=JobStatus(conditions=[end] if end else [], **status))


def job_pod(
    phase: str = "Running",
    state: ContainerState | None = None,
    *conditions: ObservedCondition,
    age_s: float = 0,
    **status: Any,
) -> JobPod:
    stamp = (NOW - timedelta(seconds=age_s)).isoformat()
    containers = [ContainerStatus(state=state)] if state else []
    return JobPod(
        metadata=Meta(name="larder-extract-1-x", namespace="team", creation_timestamp=stamp),
        status=PodStatus(phase=phase, conditions=list(conditions), container_statuses=containers, **status),
    )


def handed_in(reading: Reading, phase: str = "Succeeded") -> JobPod:
    text = encode_reading(reading).decode()
    return job_pod(phase, ContainerState(terminated=Terminated(message=text)))


def user(
    name: str = "web", node: str = "n1", status: PodStatus | None = None, *, ends: str = "", **spec: Any
) -> ClaimPod:
    """A pod with the claim `data`; `ends` is when it was deleted."""
    volume = ClaimVolume(persistent_volume_claim=ClaimSource(claim_name="data"))
    return ClaimPod(
        metadata=Meta(name=name, namespace="team", deletion_timestamp=ends or None),
        spec=ClaimPodSpec(node_name=node, volumes=[volume], **spec),
        status=status or PodStatus(),
    )


def reported(actions: list[Action]) -> WriteClaimStatus:
    """Return the one status among the actions."""
    (found,) = (a for a in actions if isinstance(a, WriteClaimStatus))
    return found


def after(seen: ClaimView, now: datetime = NOW) -> ClaimView:
    """Return the model after the status of one reconcile was written, without Jobs that have ended."""
    action = reported(decide(seen, now))
    status = claim_status(seen, action, now.strftime("%Y-%m-%dT%H:%M:%SZ"))
    demand = replace(seen.demand, refreshed=action.refreshed)
    return replace(seen, status=status, demand=demand, job=None, pods=(), job_refused="")


def read(seen: ClaimView, reading: Reading | None = None, now: datetime = NOW) -> ClaimView:
    """Return the model after its Job has reported a reading, and the spec was filled."""
    assert request_of(seen, now) is not None
    done = replace(seen, job=job(), pods=(handed_in(reading or Reading(metadata=LLAMA)),))
    return after(done, now)
