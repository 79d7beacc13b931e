"""Gives the pods of indexed workloads the claims that the templates in their annotation describe.

The names of the claims follow from the pod's index, so its volumes can name them before they exist; a scheduling gate
holds the pod back until the claims exist. Plain functions of data.
"""

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from controller.admission.errors import InvalidClaims, NameTooLong
from controller.admission.pods.patch import json_patch
from controller.admission.pods.place_pod import ensure_gate
from controller.admission.pods.pod_annotations import annotations_of, labels_of
from controller.admission.pods.scheduling import replace_items
from controller.claimtemplates.templates import (
    InvalidTemplates,
    VolumeClaimTemplate,
    claim_name,
    name_problem,
    templates_without_volume,
)
from controller.replica_claims.annotation import TEMPLATES_ANNOTATION, read_templates
from controller.replica_claims.gate import CLAIMS_GATE, CLAIMS_LABEL, GIVEN_ANNOTATION, read_record, write_record
from controller.replica_claims.identity import NoIdentity, controller_of, identity_of
from controller.replica_claims.workload_kinds import WorkloadKinds
from shared.json_object import Json

# The claim name in a Job's volume until each pod gets its own claim. No claim has this name, so a pod that admission
# missed stays Pending, and its events show the name.
PLACEHOLDER = f"volume-claim-templates.{CLAIMS_GATE.partition('/')[0]}"
_OFF = (
    f"annotation {TEMPLATES_ANNOTATION}: volume claim templates are switched off in this cluster; ask an administrator "
    "to set volumeClaimTemplates.enabled in Larder's chart, or remove the annotation"
)


def give_claims(pod: Json, workloads: WorkloadKinds) -> None:
    """Add volumes, gate and label to a pod with the annotation.

    Raises:
        InvalidClaims: The templates are invalid, or the pod's workload cannot have claims.
        NameTooLong: A claim would have too long a name.
    """
    annotations = annotations_of(pod)
    if TEMPLATES_ANNOTATION not in annotations:
        return
    templates = _templates(annotations, workloads)
    identity = _identity(pod, workloads)
    provided = _provided(pod["spec"], templates, identity, read_record(annotations))
    if provided and (node := pod["spec"].get("nodeName")):
        raise InvalidClaims(
            f"annotation {TEMPLATES_ANNOTATION}: spec.nodeName already binds the pod to {node}, so it cannot wait for "
            "its claims; remove nodeName, or use a node selector"
        )
    _mount(pod["spec"], provided, identity)
    ensure_gate(pod["spec"], CLAIMS_GATE, gated=bool(provided))
    others = {key: value for key, value in labels_of(pod).items() if key != CLAIMS_LABEL}
    replace_items(pod["metadata"], "labels", others | ({CLAIMS_LABEL: "true"} if provided else {}))
    kept = {key: value for key, value in annotations.items() if key != GIVEN_ANNOTATION}
    replace_items(
        pod["metadata"], "annotations", kept | ({GIVEN_ANNOTATION: write_record(provided)} if provided else {})
    )


def add_placeholders(job: Mapping[str, Any], workloads: WorkloadKinds) -> list[Json]:
    """Return the changes that give a Job the volumes which its containers mount, until each pod gets its own claims.

    Raises:
        InvalidClaims: The templates are invalid, or the Job has no index.
        NameTooLong: A claim would have too long a name.
    """
    wanted: Mapping[str, Any] = job["spec"]
    template = wanted.get("template") or {}
    annotations = annotations_of(template)
    if TEMPLATES_ANNOTATION not in annotations:
        return []
    templates = _templates(annotations, workloads)
    name = (job.get("metadata") or {}).get("name") or ""
    if wanted.get("completionMode") != "Indexed":
        raise InvalidClaims(
            f"annotation {TEMPLATES_ANNOTATION}: the pods of Job {name} have no index, so a pod that replaces another "
            "could not get its claims back; set completionMode: Indexed"
        )
    last = max(0, (wanted.get("completions") or 1) - 1)
    _check_names(templates, f"{name}-{last}")
    draft: Json = copy.deepcopy(dict(job))
    copied: Json = draft["spec"]
    pod: Json = copied["template"]["spec"]
    added = [_volume(one.name, PLACEHOLDER) for one in templates_without_volume(templates, pod)]
    if added:
        pod["volumes"] = [*(pod.get("volumes") or []), *added]
    return json_patch(dict(job), draft)


def _templates(annotations: Mapping[str, str], workloads: WorkloadKinds) -> tuple[VolumeClaimTemplate, ...]:
    if not workloads.enabled:
        raise InvalidClaims(_OFF)
    try:
        return read_templates(annotations)
    except InvalidTemplates as error:
        raise InvalidClaims(str(error)) from error


def _identity(pod: Mapping[str, Any], workloads: WorkloadKinds) -> str:
    metadata = pod.get("metadata") or {}
    controller = controller_of(metadata.get("ownerReferences") or [])
    if controller is None:
        raise InvalidClaims(
            f"annotation {TEMPLATES_ANNOTATION}: no workload controls the pod, so nothing could own its claims; put "
            "the annotation into the pod template of an indexed workload, such as a Job with completionMode: Indexed"
        )
    if workloads.of(controller) is None:
        known = ", ".join(dict.fromkeys(kind.kind for kind in workloads.kinds))
        raise InvalidClaims(
            f"annotation {TEMPLATES_ANNOTATION}: the pod belongs to {controller.get('kind')} {controller.get('name')} "
            f"of {controller.get('apiVersion')}, and Larder creates claims only for {known}; an administrator can "
            "add the kind to volumeClaimTemplates.workloads in Larder's chart"
        )
    try:
        return identity_of(metadata.get("name") or "", labels_of(pod), annotations_of(pod), controller)
    except NoIdentity as error:
        raise InvalidClaims(f"annotation {TEMPLATES_ANNOTATION}: {error}") from error


def _provided(
    spec: Json, templates: Sequence[VolumeClaimTemplate], identity: str, before: Collection[str]
) -> list[VolumeClaimTemplate]:
    """Return the templates that the pod gets claims from.

    The pod's own volume takes precedence over a template of the same name. Placeholders of a Job are not its own, nor
    are the volumes that an earlier pass added and recorded.
    """
    _check_names(templates, identity)
    ours = {_name_of(v) for v in spec.get("volumes") or [] if _is_ours(v, identity, before)}
    own = {"volumes": [v for v in spec.get("volumes") or [] if _name_of(v) not in ours]}
    return list(templates_without_volume(templates, own))


def _is_ours(volume: Mapping[str, Any], identity: str, before: Collection[str]) -> bool:
    claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    return claim == PLACEHOLDER or (_name_of(volume) in before and claim == claim_name(_name_of(volume), identity))


def _mount(spec: Json, provided: Sequence[VolumeClaimTemplate], identity: str) -> None:
    """Make the volumes of these templates refer to the claims."""
    claims = {template.name: claim_name(template.name, identity) for template in provided}
    found = spec.get("volumes") or []
    kept = [_volume(name, claims.pop(name)) if (name := _name_of(v)) in claims else v for v in found]
    volumes = [*kept, *(_volume(name, claim) for name, claim in claims.items())]
    if volumes != found:
        spec["volumes"] = volumes


def _check_names(templates: Sequence[VolumeClaimTemplate], identity: str) -> None:
    for template in templates:
        if problem := name_problem(claim_name(template.name, identity)):
            raise NameTooLong(f"annotation {TEMPLATES_ANNOTATION}: {problem}")


def _name_of(volume: Mapping[str, Any]) -> str:
    return str(volume.get("name", ""))


def _volume(name: str, claim: str) -> Json:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}
