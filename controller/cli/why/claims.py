"""Explains why a pod's claims do not exist or are not bound yet: those of its models, and those from templates.

No input or output, no clock.
"""

from collections.abc import Iterator

from controller.cli.why.findings import Finding, fact, some, stop, wait
from controller.cli.why.kinds import ObservedPod, WorkloadEvent
from controller.cli.why.view import PodSurroundings
from controller.placement.volume_names import SnapshotKey, is_our_claim, read_claims
from controller.replica_claims import decide as of_templates
from controller.replica_claims.gate import CLAIMS_LABEL
from controller.trainingjobs.objects import JOB_LABEL
from controller.volumes.decide import DELAYED, NAME_CONFLICT, REFUSED, TERMINATING
from controller.volumes.taken_name import advice_on_taken_name
from shared.api.core import PersistentVolumeClaim

_PASSING = (DELAYED, TERMINATING, of_templates.DELAYED, of_templates.TERMINATING)
# Events that Larder records on pods
REPORTED = (
    *_PASSING, REFUSED, of_templates.REFUSED, NAME_CONFLICT, "NameTooLong", "ModelNotAllowed", "ModelNotFound",
)  # fmt: skip
_QUEUED = "Larder has not created it yet; claims are created in turn, at the rate of controller.volumes.pvcCreateQPS"
_LOST = "its volume was deleted"


def claim_findings(pod: ObservedPod, around: PodSurroundings) -> Iterator[Finding]:
    """Yield the state of each claim by which the pod mounts a model."""
    wanted = read_claims(pod.metadata.annotations)
    if wanted and around.claims is None:
        yield fact("claim", "NotShown", "you may not read claims in this namespace")
        return
    for name, files in sorted(wanted.items()):
        claim = (around.claims or {}).get(name)
        yield _missing(name, around) if claim is None else _existing(f"claim/{name}", claim, files)


def has_template_claims(pod: ObservedPod) -> bool:
    """Return whether a pod has claims from templates: those of a TrainingJob, or of an annotation."""
    return not pod.metadata.labels.keys().isdisjoint((CLAIMS_LABEL, JOB_LABEL))


def template_claims(pod: ObservedPod) -> list[str]:
    """Return the claims that such a pod mounts, without those of its models."""
    if not has_template_claims(pod):
        return []
    mounted = {volume.persistent_volume_claim.claim_name for volume in pod.spec.volumes}
    return sorted(mounted - {"", *read_claims(pod.metadata.annotations)})


def template_claim_findings(pod: ObservedPod, around: PodSurroundings) -> Iterator[Finding]:
    """Yield the state of each of the pod's own claims."""
    wanted = template_claims(pod)
    if wanted and around.claims is None:
        yield fact("claim", "NotShown", f"you may not read claims in this namespace; the pod mounts {some(wanted)}")
        return
    for name in wanted:
        claim = (around.claims or {}).get(name)
        refused = next((e for e in around.warnings if e.reason == NAME_CONFLICT and name in e.message), None)
        if claim is None:
            yield _missing(name, around)
        elif refused is not None:
            yield stop(f"claim/{name}", NAME_CONFLICT, refused.message)
        else:
            yield _own(f"claim/{name}", claim)


def _own(about: str, claim: PersistentVolumeClaim) -> Finding:
    phase, volume = claim.status.phase, claim.spec.volume_name
    if claim.metadata.deletion_timestamp is not None:
        return wait(
            about, of_templates.TERMINATING, "it is being deleted, and disappears when the last pod that mounts it ends"
        )
    if phase == "Bound":
        return fact(about, "Bound", f"to volume {volume}")
    if phase == "Lost":
        return stop(about, "Lost", f"{_LOST}: {volume}", "delete the claim and then the pod; both are recreated")
    advice = f"`kubectl describe pvc {claim.metadata.name} -n {claim.metadata.namespace}` says why"
    return wait(about, "NotBound", "it is not bound yet; many storage classes wait until its pod has a node", advice)


def _missing(name: str, around: PodSurroundings) -> Finding:
    event = next((e for e in around.warnings if e.reason in REPORTED and _is_about(e, name)), None)
    if event is None:
        return wait(f"claim/{name}", "Queued", _QUEUED)
    return (wait if event.reason in _PASSING else stop)(f"claim/{name}", event.reason, event.message)


def _is_about(event: WorkloadEvent, name: str) -> bool:
    """Return whether an Event is about this claim; Events about a model name no claim."""
    return name in event.message or event.reason == "ModelNotFound"


def _existing(about: str, claim: PersistentVolumeClaim, wanted: SnapshotKey) -> Finding:
    phase, volume = claim.status.phase, claim.spec.volume_name
    if not is_our_claim(claim):
        remedy = advice_on_taken_name(claim.metadata.name, wanted)
        return stop(about, NAME_CONFLICT, "a claim of this name exists that Larder did not create", remedy)
    if claim.metadata.deletion_timestamp is not None:
        remedy = "delete the older pods that mount it"
        return wait(
            about, TERMINATING, "it is being deleted, and disappears when the last pod that mounts it ends", remedy
        )
    if phase == "Bound":
        return fact(about, "Bound", f"to volume {volume}")
    if phase == "Lost":
        return stop(about, "Lost", f"{_LOST}: {volume}", "delete the pods that mount it; Larder then recreates both")
    return wait(about, "NotBound", f"it is not bound to volume {volume} yet")
