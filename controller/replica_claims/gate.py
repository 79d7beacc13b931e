"""The marks on pods with claims from templates, and which claims those are. No input or output, no clock."""

from collections.abc import Collection, Mapping, Sequence

from controller.claimtemplates.templates import VolumeClaimTemplate, claim_name

CLAIMS_GATE = "larder.dev/volume-claims"  # the scheduling gate of pods whose claims do not exist yet
CLAIMS_LABEL = "larder.dev/volume-claims"  # on every pod with claims from templates
GIVEN_ANNOTATION = "larder.dev/volume-claims-given"  # the templates that admission used for the pod
QUEUE_GATES = "kueue.x-k8s.io/"  # a pod behind such a gate has no quota yet, so it gets no storage


def mounted_templates(
    templates: Sequence[VolumeClaimTemplate], identity: str, mounted: Collection[str], annotations: Mapping[str, str]
) -> tuple[VolumeClaimTemplate, ...]:
    """Return the templates whose claims admission added to a pod, if the pod mounts these claims.

    One of the pod's own volumes may use a claim of the same name, for example in a StatefulSet. So admission records
    which claims it added. The record can only exclude templates, because anyone may change an annotation later, while
    a pod's volumes are immutable.
    """
    found = tuple(template for template in templates if claim_name(template.name, identity) in mounted)
    if GIVEN_ANNOTATION not in annotations:
        return found  # an older release admitted the pod
    recorded = read_record(annotations)
    return tuple(template for template in found if template.name in recorded)


def write_record(templates: Sequence[VolumeClaimTemplate]) -> str:
    """Return the value of the record for these templates."""
    return ",".join(template.name for template in templates)


def read_record(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the template names in a pod's record; such templates need not exist."""
    return frozenset(annotations.get(GIVEN_ANNOTATION, "").split(","))
