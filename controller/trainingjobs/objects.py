"""Names and manifests of the objects of a training job. No input or output, no clock."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.claimtemplates.templates import (
    ClaimOwner,
    InvalidTemplates,
    VolumeClaimTemplate,
    claim_body,
    claim_name,
    claim_volumes,
    parse_templates,
    templates_without_volume,
)
from shared.api.training_job import GROUP, VERSION, ReplicaSpec, TrainingJob
from shared.json_object import Json
from shared.kube.objects import Meta

JOB_LABEL = "larder.dev/training-job"  # on every object of a job; the value is the job's name
KUBEFLOW = "training.kubeflow.org"
LONGEST_NAME = 63  # of a pod, because it is also its host name
MASTERS = frozenset(("master", "chief"))
_IN_PLACE = frozenset(("Always", "OnFailure", "Never"))


@dataclass(frozen=True, slots=True)
class JobReplica:
    """One replica of a job."""

    role: str
    index: int

    def pod(self, job: Meta) -> str:
        """Return the name of its pod."""
        return pod_name(job.name, self.role, self.index)


def pod_name(job: str, role: str, index: int) -> str:
    """Return the name of the pod of a replica."""
    return f"{job}-{role.lower()}-{index}"


def replicas_of(job: TrainingJob) -> Iterator[JobReplica]:
    """Yield every replica of a job in order of creation, masters first."""
    roles = sorted(job.spec.replica_specs, key=lambda role: (role.lower() not in MASTERS, role))
    for role in roles:
        for index in range(job.spec.replica_specs[role].replicas):
            yield JobReplica(role, index)


def templates_of(spec: ReplicaSpec, role: str) -> tuple[VolumeClaimTemplate, ...]:
    """Return the claim templates of a role. Raises InvalidTemplates."""
    templates = parse_templates(spec.volume_claim_templates, f"spec.replicaSpecs.{role}.volumeClaimTemplates")
    volumes = spec.template["spec"].get("volumes")
    if volumes is not None and not isinstance(volumes, list):
        raise InvalidTemplates(f"spec.replicaSpecs.{role}.template.spec.volumes: write a list")
    return templates_without_volume(templates, spec.template["spec"])


def template_of(job: TrainingJob, replica: JobReplica, claim: str) -> VolumeClaimTemplate | None:
    """Return the template of a replica's claim; None if the job has no valid one any more."""
    spec = job.spec.replica_specs.get(replica.role)
    try:
        templates = templates_of(spec, replica.role) if spec is not None else ()
    except InvalidTemplates:
        return None
    pod = replica.pod(job.metadata)
    return next((template for template in templates if claim_name(template.name, pod) == claim), None)


def owner_of(job: TrainingJob) -> ClaimOwner:
    """Return the job as the owner of its objects."""
    return ClaimOwner(f"{GROUP}/{VERSION}", "TrainingJob", job.metadata.name, job.metadata.uid)


def labels_of(job: Meta) -> dict[str, str]:
    """Return the labels that all objects of a job have."""
    return {JOB_LABEL: job.name, f"{KUBEFLOW}/job-name": job.name}


def replica_labels(job: Meta, replica: JobReplica) -> dict[str, str]:
    """Return the labels of a replica's pod and claims, as Kubeflow's training operator sets them."""
    role = replica.role.lower()
    labels = {f"{KUBEFLOW}/replica-type": role, f"{KUBEFLOW}/replica-index": str(replica.index)}
    if role in MASTERS:
        labels[f"{KUBEFLOW}/job-role"] = "master"
    return labels_of(job) | labels


def replica_claim(job: TrainingJob, replica: JobReplica, template: VolumeClaimTemplate) -> Json:
    """Return a claim of a replica."""
    meta = job.metadata
    return claim_body(template, meta.namespace, replica.pod(meta), owner_of(job), replica_labels(meta, replica))


def replica_pod(job: TrainingJob, replica: JobReplica, templates: tuple[VolumeClaimTemplate, ...]) -> Json:
    """Return the pod of a replica.

    Only labels and annotations of the template's metadata are used. The restart policy comes from the role. The host
    name makes the pod reachable as `<pod>.<job>` through the job's Service.
    """
    meta, spec = job.metadata, job.spec.replica_specs[replica.role]
    written, name = spec.template.get("metadata") or {}, replica.pod(meta)
    metadata: Json = {
        "name": name,
        "namespace": meta.namespace,
        "labels": _strings(written, "labels") | replica_labels(meta, replica),
        "annotations": _strings(written, "annotations"),
        "ownerReferences": [owner_of(job).reference()],
    }
    pod: Json = spec.template["spec"] | {
        "restartPolicy": spec.restart_policy if spec.restart_policy in _IN_PLACE else "Never",
        "hostname": name,
        "subdomain": meta.name,
    }
    if volumes := claim_volumes(templates, name):
        pod["volumes"] = [*(pod.get("volumes") or []), *volumes]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}


def job_service(job: TrainingJob) -> Json:
    """Return the headless Service that gives every pod a DNS name, even before it is ready."""
    meta = job.metadata
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": labels_of(meta) | {"app.kubernetes.io/managed-by": "larder"},
            "ownerReferences": [owner_of(job).reference()],
        },
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {JOB_LABEL: meta.name}},
    }


def _strings(metadata: Mapping[str, Any], part: str) -> dict[str, str]:
    found = metadata.get(part)
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}
