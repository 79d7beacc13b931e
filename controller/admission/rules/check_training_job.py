"""Validates a TrainingJob beyond what its definition can: templates, names and mounts. No input or output."""

from collections.abc import Iterator, Mapping
from typing import Any

from controller.admission.errors import InvalidTemplate
from controller.admission.rules.field_problems import Spec
from controller.claimtemplates.templates import InvalidTemplates, VolumeClaimTemplate, parse_templates
from controller.trainingjobs.objects import LONGEST_NAME, pod_name

_SHOWN = 5


def check_training_job(job: Mapping[str, Any]) -> list[str]:
    """Return warnings about a TrainingJob: what keeps some of its pods from being created.

    A name that is too long is a warning, because it may concern the last replicas alone; the others run. A mount
    without a volume is also a warning, because another webhook may add the volume to the pods.

    Raises:
        InvalidTemplate: No claim can be made from a template; the message has all problems.
    """
    name = str((job.get("metadata") or {}).get("name") or "")
    roles: Mapping[str, Spec] = (job.get("spec") or {}).get("replicaSpecs") or {}
    problems, warnings = list[str](), list[str]()
    for role, spec in roles.items():
        where = f"spec.replicaSpecs.{role}"
        try:
            templates = parse_templates(spec.get("volumeClaimTemplates") or [], f"{where}.volumeClaimTemplates")
        except InvalidTemplates as error:
            problems.append(str(error))
            continue
        warnings += _name_warnings(name, role, int(spec.get("replicas", 1)))
        warnings += _mount_warnings(where, spec, templates)
    if problems:
        raise InvalidTemplate("; ".join(problems))
    return warnings


def _name_warnings(job: str, role: str, replicas: int) -> Iterator[str]:
    """Yield how many pods would have too long a name: later indexes have more digits."""
    last = pod_name(job, role, max(0, replicas - 1))
    if not replicas or len(last) <= LONGEST_NAME:
        return
    digits = LONGEST_NAME - len(pod_name(job, role, 0)) + 1
    fitting = min(replicas, 10**digits) if digits > 0 else 0
    yield (
        f"{replicas - fitting} of {replicas} pods of role {role} will not be created: the name {last[:80]} has "
        f"{len(last)} characters, and at most {LONGEST_NAME} are allowed; shorten the name of the job"
    )


def _mount_warnings(where: str, spec: Spec, templates: tuple[VolumeClaimTemplate, ...]) -> Iterator[str]:
    """Yield the mounts that name no volume, because the API server would refuse the pods."""
    pod = (spec.get("template") or {}).get("spec") or {}
    known = {template.name for template in templates} | {_name_of(volume) for volume in _list(pod, "volumes")}
    containers = [*_list(pod, "initContainers"), *_list(pod, "containers")]
    mounts = [_name_of(mount) for container in containers for mount in _list(container, "volumeMounts")]
    if missing := sorted({name for name in mounts if name not in known}):
        found = ", ".join(sorted(known)[:_SHOWN]) or "none"
        yield (
            f"{where}.template mounts {', '.join(missing[:_SHOWN])}, and neither its volumes nor its "
            f"volumeClaimTemplates have that name (they have: {found}); the API server will refuse such pods"
        )


def _list(found: object, part: str) -> list[Any]:
    listed = found.get(part) if isinstance(found, Mapping) else None
    return listed if isinstance(listed, list) else []


def _name_of(found: object) -> str:
    return str(found.get("name", "")) if isinstance(found, Mapping) else ""
