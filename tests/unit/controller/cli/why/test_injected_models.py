"""What `larder why` reports about the Models that a pod names."""

from dataclasses import replace
from typing import Any

import pytest

from controller.cli.why.findings import Severity
from controller.cli.why.kinds import ObservedPod, ObservedPodSpec, ObservedPodStatus, Workload, WorkloadSpec
from controller.cli.why.pods import why_pod
from controller.cli.why.workloads import ObservedWorkload, why_workload
from shared.api.core import MountedClaim, ObservedCondition, Volume
from tests.builders.cluster import meta
from tests.builders.why import seen

NAMES = {"models.example.com/inject": "llama, mistral"}
INJECTED = {"models.example.com/injected": "true"}


def pod(*claims: str, labels: dict[str, str] | None = None, namespace: str = "team", **fields: Any) -> ObservedPod:
    mounted = [Volume(persistent_volume_claim=MountedClaim(claim_name=claim)) for claim in claims]
    metadata = meta("p", namespace=namespace, annotations=fields.pop("annotations", NAMES), labels=labels or {})
    return ObservedPod(metadata=metadata, spec=ObservedPodSpec(volumes=mounted), **fields)


def test_a_pod_with_its_models_is_reported_as_injected() -> None:
    [finding] = [
        f
        for f in why_pod(pod("model-llama", "model-mistral", labels=INJECTED), seen()).findings
        if f.about == "admission"
    ]
    assert (finding.severity, finding.reason) == (Severity.FACT, "Injected")
    assert "Model llama, Model mistral" in finding.message


@pytest.mark.parametrize(
    ("found", "reason", "phrase"),
    [
        (pod(), "NotInjected", "the webhook did not answer, which lets pods pass (failurePolicy Ignore)"),
        (pod("model-llama"), "NotInjected", "the pod names mistral"),
        (pod(labels=INJECTED), "NotInjected", "created with the label models.example.com/injected"),
        (pod(namespace="larder-system"), "ExcludedNamespace", "skips pods in namespace larder-system"),
        (pod(annotations={"models.example.com/inject": ","}), "InvalidRequest", "names no Model"),
    ],
)
def test_a_pod_that_bypassed_admission_is_recognised(found: ObservedPod, reason: str, phrase: str) -> None:
    [finding] = [f for f in why_pod(found, seen()).findings if f.about == "admission"]
    assert (finding.severity, finding.reason) == (Severity.STOP, reason)
    assert phrase in finding.message
    assert finding.remedy


def test_the_remedy_names_the_namespace_of_larder() -> None:
    cluster = replace(seen(), release_namespace="models-system")
    [finding] = [f for f in why_pod(pod(), cluster).findings if f.about == "admission"]
    assert "-n models-system larder-controller" in finding.remedy


def test_a_running_pod_of_a_deployment_that_slipped_through_is_named() -> None:
    ready = ObservedPodStatus(phase="Running", conditions=[ObservedCondition(type="Ready", status="True")])
    body = Workload(metadata=meta("d", namespace="team"), spec=WorkloadSpec(replicas=1))
    found = ObservedWorkload("Deployment", body, pods=(pod(status=ready),))
    reasons = {f.reason: f for f in why_workload(found, seen()).findings}
    assert reasons["NotInjected"].about == "pod/p: admission"
