"""Explains whether a pod got the Models that it names. No input or output, no clock."""

from collections.abc import Iterator

from controller.admission.errors import AdmissionRefused
from controller.admission.model_injector.annotations import INJECT, requested_names
from controller.cli.why.findings import Finding, fact, some, stop
from controller.cli.why.kinds import ObservedPod
from shared.names import INJECTED_LABEL

_CLAIM = "model-{}"


def injected_model_findings(pod: ObservedPod, release_namespace: str) -> Iterator[Finding]:
    """Yield whether the webhook added the Models that the pod's annotation names; nothing if it names none."""
    meta = pod.metadata
    try:
        names = requested_names(meta.annotations)
    except AdmissionRefused as refusal:
        names = []
        yield stop("admission", "InvalidRequest", str(refusal), "correct the annotation and recreate the pod")
    if not names:
        return
    claims = {volume.persistent_volume_claim.claim_name for volume in pod.spec.volumes}
    missing = [name for name in names if _CLAIM.format(name) not in claims]
    if not missing:
        yield fact("admission", "Injected", f"the pod was admitted with {some(f'Model {name}' for name in names)}")
    elif meta.namespace in ("kube-system", release_namespace):
        message = f"admission skips pods in namespace {meta.namespace}"
        yield stop("admission", "ExcludedNamespace", message, "create it in another namespace")
    elif INJECTED_LABEL in meta.labels:
        yield stop(
            "admission", "NotInjected",
            f"the pod names {some(missing)} ({INJECT}) but does not mount it: the pod was created with the label "
            f"{INJECTED_LABEL}, so the API server did not call the webhook",
            "remove the label from the manifest or the pod template, and recreate the pod",
        )  # fmt: skip
    else:
        yield stop(
            "admission", "NotInjected",
            f"the pod names {some(missing)} ({INJECT}) but does not mount it: it was created while the webhook did not "
            "answer, which lets pods pass (failurePolicy Ignore), or before Models were enabled in Larder's chart",
            "recreate the pod; check `kubectl get mutatingwebhookconfiguration model-injector` and "
            f"`kubectl get deployment -n {release_namespace} larder-controller`",
        )  # fmt: skip
