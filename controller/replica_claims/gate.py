"""How a pod that waits for its claims is marked, and which claims it has. No input or output, no clock."""

from collections.abc import Collection, Mapping, Sequence

from controller.claimtemplates.templates import VolumeClaimTemplate, claim_name

CLAIMS_GATE = "larder.dev/volume-claims"  # the scheduling gate of pods whose claims do not exist yet
CLAIMS_LABEL = "larder.dev/volume-claims"  # on every pod that was given claims
GIVEN_ANNOTATION = "larder.dev/volume-claims-given"  # the templates that admission gave the pod claims from
QUEUE_GATES = "kueue.x-k8s.io/"  # a pod behind such a gate has no quota yet, and gets no storage either


def mounted_templates(
    templates: Sequence[VolumeClaimTemplate], identity: str, mounted: Collection[str], annotations: Mapping[str, str]
) -> tuple[VolumeClaimTemplate, ...]:
    """Return the templates whose claims admission added to a pod, as far as the pod mounts these claims.

    A volume of the pod's own may lead to a claim of the same name, such as a StatefulSet's, so admission records what
    it gave. Anyone may change an annotation later, but nobody a pod's volumes: the record only leaves templates out.
    """
    found = tuple(template for template in templates if claim_name(template.name, identity) in mounted)
    if GIVEN_ANNOTATION not in annotations:
        return found  # an older release admitted the pod
    recorded = read_record(annotations)
    return tuple(template for template in found if template.name in recorded)


def write_record(templates: Sequence[VolumeClaimTemplate]) -> str:
    """Return the record of the templates that a pod was given claims from."""
    return ",".join(template.name for template in templates)


def read_record(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the templates in a pod's record; whether there are such templates is not known here."""
    return frozenset(annotations.get(GIVEN_ANNOTATION, "").split(","))
