"""What `larder why` reports about the claims that a pod waits for."""

import pytest

from controller.cli.why.claims import claim_findings, template_claim_findings
from controller.cli.why.findings import Severity
from controller.cli.why.kinds import ObservedPod, ObservedPodSpec, WorkloadEvent
from controller.cli.why.pods import why_pod
from controller.cli.why.view import PodSurroundings
from controller.placement.volume_names import CLAIMS_ANNOTATION, VOLUME_LABEL
from controller.replica_claims.gate import CLAIMS_GATE, CLAIMS_LABEL
from controller.trainingjobs.objects import JOB_LABEL
from shared.api.core import (
    ClaimSpec,
    ClaimStatus,
    MountedClaim,
    PersistentVolumeClaim,
    SchedulingGate,
    Volume,
)
from tests.builders.cluster import meta
from tests.builders.why import seen

POD = ObservedPod(metadata=meta("web-0", namespace="team", annotations={CLAIMS_ANNOTATION: "llama=llama@r1"}))


def claim(phase: str = "Bound", *, deleting: bool = False, ours: bool = True) -> PersistentVolumeClaim:
    labels = {VOLUME_LABEL: "true"} if ours else {}
    stamp = "2026-01-01T00:00:00Z" if deleting else None
    return PersistentVolumeClaim(
        metadata=meta("llama", namespace="team", labels=labels, deletion_timestamp=stamp),
        spec=ClaimSpec(volume_name="llama-team"),
        status=ClaimStatus(phase=phase),
    )


def event(reason: str, message: str = "the claim 'llama' cannot be created: exceeded quota") -> WorkloadEvent:
    return WorkloadEvent(metadata=meta("e"), reason=reason, message=message)


@pytest.mark.parametrize(
    ("around", "severity", "reason"),
    [
        (PodSurroundings(), Severity.WAIT, "Queued"),
        (PodSurroundings(warnings=(event("VolumeRefused"),)), Severity.STOP, "VolumeRefused"),
        (PodSurroundings(warnings=(event("VolumeDelayed"),)), Severity.WAIT, "VolumeDelayed"),
        (PodSurroundings(warnings=(event("ModelNotFound", "no model has it"),)), Severity.STOP, "ModelNotFound"),
        (PodSurroundings(warnings=(event("VolumeRefused", "the claim 'other'"),)), Severity.WAIT, "Queued"),
        (PodSurroundings(warnings=(event("FailedMount", "llama"),)), Severity.WAIT, "Queued"),
        (PodSurroundings(claims={"llama": claim()}), Severity.FACT, "Bound"),
        (PodSurroundings(claims={"llama": claim("Pending")}), Severity.WAIT, "NotBound"),
        (PodSurroundings(claims={"llama": claim("Lost")}), Severity.STOP, "Lost"),
        (PodSurroundings(claims={"llama": claim(deleting=True)}), Severity.WAIT, "VolumeTerminating"),
        (PodSurroundings(claims={"llama": claim(ours=False)}), Severity.STOP, "NameConflict"),
    ],
)
def test_the_state_of_a_claim_is_reported_with_its_severity(
    around: PodSurroundings, severity: Severity, reason: str
) -> None:
    (found,) = claim_findings(POD, around)
    assert (found.severity, found.about, found.reason) == (severity, "claim/llama", reason)


@pytest.mark.parametrize(("model", "has_alternative"), [("llama", True), ("other", False)])
def test_a_claim_that_is_not_larders_has_a_remedy(model: str, *, has_alternative: bool) -> None:
    pod = ObservedPod(metadata=meta("web-0", namespace="team", annotations={CLAIMS_ANNOTATION: f"llama={model}@r1"}))
    (found,) = claim_findings(pod, PodSurroundings(claims={"llama": claim(ours=False)}))
    assert found.remedy.startswith("delete claim llama if nobody needs its data")
    assert ("its successor gets another name" in found.remedy) == has_alternative


def test_a_user_who_may_not_read_claims_is_informed() -> None:
    (found,) = claim_findings(POD, PodSurroundings(claims=None))
    assert (found.severity, found.reason) == (Severity.FACT, "NotShown")


def test_a_pod_without_claims_has_no_findings() -> None:
    assert list(claim_findings(ObservedPod(metadata=meta("web-0")), PodSurroundings(claims=None))) == []


def replica(label: str = CLAIMS_LABEL, *claims: str) -> ObservedPod:
    volumes = [Volume(persistent_volume_claim=MountedClaim(claim_name=name)) for name in claims or ("data-train-0",)]
    return ObservedPod(
        metadata=meta("train-0-x7k", namespace="team", labels={label: "true"}),
        spec=ObservedPodSpec(volumes=[*volumes, Volume()], scheduling_gates=[SchedulingGate(name=CLAIMS_GATE)]),
    )


@pytest.mark.parametrize(
    ("around", "severity", "reason"),
    [
        (PodSurroundings(), Severity.WAIT, "Queued"),
        (
            PodSurroundings(warnings=(event("ClaimRefused", "claim 'data-train-0': quota"),)),
            Severity.STOP,
            "ClaimRefused",
        ),
        (PodSurroundings(warnings=(event("ClaimDelayed", "claim 'data-train-0'"),)), Severity.WAIT, "ClaimDelayed"),
        (PodSurroundings(claims={"data-train-0": claim()}), Severity.FACT, "Bound"),
        (PodSurroundings(claims={"data-train-0": claim("Pending")}), Severity.WAIT, "NotBound"),
        (PodSurroundings(claims={"data-train-0": claim("Lost")}), Severity.STOP, "Lost"),
        (PodSurroundings(claims={"data-train-0": claim(deleting=True)}), Severity.WAIT, "ClaimTerminating"),
        (
            PodSurroundings(
                claims={"data-train-0": claim()}, warnings=(event("NameConflict", "team/data-train-0 exists"),)
            ),
            Severity.STOP,
            "NameConflict",
        ),
    ],
)
@pytest.mark.parametrize("label", [CLAIMS_LABEL, JOB_LABEL])
def test_the_state_of_a_templates_claim_is_reported_with_its_severity(
    label: str, around: PodSurroundings, severity: Severity, reason: str
) -> None:
    (found,) = template_claim_findings(replica(label), around)
    assert (found.severity, found.about, found.reason) == (severity, "claim/data-train-0", reason)


def test_a_gated_pod_lists_each_claim_that_it_waits_for() -> None:
    found = why_pod(replica(CLAIMS_LABEL, "logs-train-0", "data-train-0"), seen())
    waits = [(finding.about, finding.reason) for finding in found.findings if finding.severity is Severity.WAIT]
    assert ("gate", "Gated") in waits
    assert [about for about, reason in waits if reason == "Queued"] == ["claim/data-train-0", "claim/logs-train-0"]
    assert not [finding for finding in found.findings if finding.severity is Severity.STOP]
