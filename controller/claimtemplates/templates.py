"""Parses volume claim templates and builds a pod's claims and volumes from them. No input or output, no clock."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from shared.json_object import Json
from shared.kube.objects import Meta
from shared.quantity import parse_quantity

MAX_TEMPLATES = 16
MAX_TEMPLATE_BYTES = 16 * 1024
TEMPLATE_LABEL = "larder.dev/volume-claim-template"  # on every claim made from a template: the template's name
LONGEST_NAME = 253  # of a claim or a pod
SPEC_FIELDS = frozenset(
    (
        "accessModes",
        "dataSource",
        "dataSourceRef",
        "resources",
        "selector",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    )
)
_METADATA_FIELDS = frozenset(("name", "labels", "annotations"))
_IGNORED = frozenset(("apiVersion", "kind", "status", "creationTimestamp"))  # Go programs write them even if empty
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OURS = "larder.dev/"


class InvalidTemplates(ValueError):
    """Invalid volume claim templates; the message says where, and what to write instead."""


@dataclass(frozen=True, slots=True)
class VolumeClaimTemplate:
    """A template for one claim per pod.

    Args:
        name: Name of the volume in the pod.
        spec: The specification of the claims.
        labels: Labels of the claims.
        annotations: Annotations of the claims.
    """

    name: str
    spec: Mapping[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimOwner:
    """The workload that owns the claims of its pods."""

    api_version: str
    kind: str
    name: str
    uid: str

    def reference(self) -> Json:
        """Return the owner reference: Kubernetes deletes the claims with the workload, and not before."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def parse_templates(written: object, where: str) -> tuple[VolumeClaimTemplate, ...]:
    """Return the templates of a decoded JSON list.

    Args:
        written: The decoded JSON.
        where: The field or annotation that it is from, for messages.

    Raises:
        InvalidTemplates: It is not a list of at most 16 templates of 16 KiB each, or one sets a forbidden field.
    """
    if not isinstance(written, list):
        raise InvalidTemplates(f"{where}: write a list of PersistentVolumeClaims")
    if len(written) > MAX_TEMPLATES:
        raise InvalidTemplates(f"{where}: {len(written)} templates; at most {MAX_TEMPLATES} are allowed")
    templates = tuple(_parse(item, f"{where}[{index}]") for index, item in enumerate(written))
    names = [template.name for template in templates]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise InvalidTemplates(f"{where}: two templates are named {twice!r}; rename one of them")
    return templates


def templates_without_volume(
    templates: Sequence[VolumeClaimTemplate], pod_spec: Mapping[str, Any]
) -> tuple[VolumeClaimTemplate, ...]:
    """Return the templates that apply to a pod: those without a volume of the same name in the pod itself."""
    volumes = pod_spec.get("volumes") or []
    defined = {volume.get("name") for volume in volumes if isinstance(volume, Mapping)}
    return tuple(template for template in templates if template.name not in defined)


def claim_name(volume: str, pod: str) -> str:
    """Return the name of a pod's claim; `name_problem` says whether it fits."""
    return f"{volume}-{pod}"


def name_problem(claim: str) -> str:
    """Return why this cannot be the name of a claim; empty if it can."""
    if len(claim) <= LONGEST_NAME:
        return ""
    return (
        f"the claim name {claim[:60]}... has {len(claim)} characters, and at most {LONGEST_NAME} are allowed; shorten "
        "the name of the workload or of the template"
    )


def claim_body(
    template: VolumeClaimTemplate, namespace: str, pod: str, owner: ClaimOwner, labels: Mapping[str, str]
) -> Json:
    """Return the claim of a pod.

    Args:
        template: Its template.
        namespace: Namespace of the pod.
        pod: Name of the pod.
        owner: The workload.
        labels: Labels that identify the claim within the workload.
    """
    ours = {TEMPLATE_LABEL: template.name, "app.kubernetes.io/managed-by": "larder"}
    metadata: Json = {
        "name": claim_name(template.name, pod),
        "namespace": namespace,
        "labels": {**template.labels, **labels, **ours},
        "ownerReferences": [owner.reference()],
    }
    if template.annotations:
        metadata["annotations"] = dict(template.annotations)
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": dict(template.spec)}


def claim_volumes(templates: Sequence[VolumeClaimTemplate], pod: str) -> list[Json]:
    """Return the pod volumes that mount its claims."""
    return [
        {"name": template.name, "persistentVolumeClaim": {"claimName": claim_name(template.name, pod)}}
        for template in templates
    ]


def is_controlled(meta: Meta, uid: str) -> bool:
    """Return whether the object with this uid is the controller; claims and pods of others are never used."""
    return any(owner.get("uid") == uid and owner.get("controller") is True for owner in meta.owner_references)


def _parse(written: object, where: str) -> VolumeClaimTemplate:
    if not isinstance(written, Mapping):
        raise InvalidTemplates(f"{where}: write a PersistentVolumeClaim with metadata and spec")
    if (size := len(msgspec.json.encode(written))) > MAX_TEMPLATE_BYTES:
        raise InvalidTemplates(f"{where}: {size} bytes; at most {MAX_TEMPLATE_BYTES} are allowed")
    metadata, spec = (_object(written, part, where) for part in ("metadata", "spec"))
    problem = next(_problems(written, metadata, spec), None)
    if problem is not None:
        raise InvalidTemplates(f"{where}.{problem}")
    return VolumeClaimTemplate(metadata["name"], spec, metadata.get("labels") or {}, metadata.get("annotations") or {})


def _object(written: Mapping[str, Any], part: str, where: str) -> Mapping[str, Any]:
    found = written.get(part)
    if not isinstance(found, Mapping):
        raise InvalidTemplates(f"{where}.{part}: missing, or not an object")
    return found


def _problems(written: Mapping[str, Any], metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of a template, each beginning with the field."""
    for name in sorted(written.keys() - _IGNORED - {"metadata", "spec"}):
        yield f"{name[:63]}: a template has only metadata and spec"
    for name in sorted(metadata.keys() - _IGNORED - _METADATA_FIELDS):
        yield f"metadata.{name[:63]}: may not be set; a template has name, labels and annotations"
    for name in sorted(spec.keys() - SPEC_FIELDS):
        yield f"spec.{name[:63]}: may not be set; a template may set {', '.join(sorted(SPEC_FIELDS))}"
    own = metadata.get("name")
    if not isinstance(own, str) or not _NAME.fullmatch(own):
        yield "metadata.name: write the name of a volume, at most 63 lowercase letters, digits and '-'"
    for part in ("labels", "annotations"):
        yield from _map_problems(metadata.get(part), f"metadata.{part}")
    yield from _spec_problems(spec)


def _map_problems(found: object, where: str) -> Iterator[str]:
    if found is None:
        return
    if not isinstance(found, Mapping) or not all(isinstance(value, str) for value in found.values()):
        yield f"{where}: write an object whose values are strings"
        return
    for key in sorted(key for key in found if key.partition("/")[0].endswith(_OURS[:-1])):
        yield f"{where}.{key[:63]}: Larder sets the keys of {_OURS[:-1]} itself"


def _spec_problems(spec: Mapping[str, Any]) -> Iterator[str]:
    modes = spec.get("accessModes")
    if not isinstance(modes, list) or not modes or not all(isinstance(mode, str) for mode in modes):
        yield "spec.accessModes: name at least one, for example [ReadWriteOnce]"
    resources = spec.get("resources")
    requests = resources.get("requests") if isinstance(resources, Mapping) else None
    storage = requests.get("storage") if isinstance(requests, Mapping) else None
    try:
        size = parse_quantity(storage) if isinstance(storage, str | int) else 0
    except ValueError:
        size = 0
    if size <= 0:
        yield "spec.resources.requests.storage: write a size, for example 100Gi"
