"""TrainingJob (`larder.dev/v1alpha1`): pods that train together, each with claims of its own."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from shared.api.meta import ApiStruct, Conditions
from shared.api.pod_template import KEEP, pod_template
from shared.kube.objects import Object

GROUP = "larder.dev"
VERSION = "v1alpha1"
MAX_REPLICAS = 5000  # of a job: the controller looks at all of them at once
_CLAIM_TEMPLATE: dict[str, Any] = {
    "required": ["metadata", "spec"],
    "properties": {
        "metadata": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {
                    "type": "string",
                    "maxLength": 63,
                    "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
                    "description": "Name of the volume in the pod.",
                }
            },
            "description": "Name, labels and annotations.",
            **KEEP,
        },
        "spec": {"type": "object", "description": "A v1.PersistentVolumeClaimSpec without volumeName.", **KEEP},
    },
    **KEEP,
}
# CEL rules over the whole object, each with the message for objects that break it.
RULES = (
    (
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        (
            "the name must also be valid for a Service: lowercase letters, digits and '-', starting with a letter and "
            "ending with a letter or digit"
        ),
    ),
    (
        "self.spec.replicaSpecs.all(role, role.matches('^[A-Za-z][A-Za-z0-9]{0,31}$'))",
        "the roles in spec.replicaSpecs have at most 32 letters and digits and start with a letter, for example Worker",
    ),
    (
        (
            "self.spec.replicaSpecs.all(role, self.spec.replicaSpecs.all(other, role == other || "
            "role.lowerAscii() != other.lowerAscii()))"
        ),
        "two roles in spec.replicaSpecs differ only in case, so their pods would have the same names",
    ),
    (
        (
            "self.spec.replicaSpecs.map(role, has(self.spec.replicaSpecs[role].replicas) ? "
            f"self.spec.replicaSpecs[role].replicas : 1).sum() <= {MAX_REPLICAS}"
        ),
        f"the roles in spec.replicaSpecs have more than {MAX_REPLICAS} replicas together; split the job",
    ),
)


class RunPolicy(ApiStruct, frozen=True, kw_only=True):
    """How long the job runs, how often it is retried, and what remains of it."""

    clean_pod_policy: Annotated[
        Literal["None", "Running", "All"],
        Meta(
            description="Pods to delete once the job has finished: `None`, those that still run (`Running`) or `All`. "
            "Defaults to `None`."
        ),
    ] = "None"
    ttl_seconds_after_finished: Annotated[
        Annotated[int, Meta(ge=0, le=2**31 - 1)] | None,
        Meta(
            description="Seconds after which a finished job is deleted, with its pods and claims. By default it is "
            "kept."
        ),
    ] = None
    active_deadline_seconds: Annotated[
        Annotated[int, Meta(ge=1, le=2**31 - 1)] | None,
        Meta(description="Seconds from `status.startTime` after which the job fails. By default there is no limit."),
    ] = None
    backoff_limit: Annotated[
        Annotated[int, Meta(ge=0, le=2**31 - 1)] | None,
        Meta(
            description="Number of restarts, of pods and of containers, after which the job fails. By default there "
            "is no limit."
        ),
    ] = None
    suspend: Annotated[bool, Meta(description="Whether to delete the pods and keep the claims. Defaults to false.")] = (
        False
    )


RestartPolicy = Literal["Always", "OnFailure", "Never", "ExitCode"]


class ReplicaSpec(ApiStruct, frozen=True, kw_only=True):
    """The replicas of one role."""

    replicas: Annotated[int, Meta(ge=0, le=MAX_REPLICAS, description="Number of pods. Defaults to 1.")] = 1
    restart_policy: Annotated[
        RestartPolicy,
        Meta(
            description="What happens after a failure: `Always` and `OnFailure` restart the container, and replace "
            "a pod that failed; `Never` fails the job; `ExitCode` replaces the pod after an exit code of 128 or more, "
            "and fails the job otherwise. Overrides the restartPolicy of the template. Defaults to `Never`."
        ),
    ] = "Never"
    template: Annotated[
        dict[str, Any],
        Meta(
            extra_json_schema=pod_template("Containers of the pods."),
            description="A v1.PodTemplateSpec for the pods. Only its labels, annotations and spec are used.",
        ),
    ]
    volume_claim_templates: Annotated[
        list[Annotated[dict[str, Any], Meta(extra_json_schema=_CLAIM_TEMPLATE)]],
        Meta(
            max_length=16,
            extra_json_schema={"x-kubernetes-list-type": "atomic"},
            description="v1.PersistentVolumeClaims. Each pod gets one of each, as the volume of that name. A volume "
            "of the template with the same name takes precedence.",
        ),
    ] = []


class TrainingJobSpec(ApiStruct, frozen=True, kw_only=True):
    """The desired state of a job."""

    replica_specs: Annotated[
        dict[str, ReplicaSpec],
        Meta(min_length=1, max_length=8, description="The replicas by role, for example `Master` and `Worker`."),
    ]
    run_policy: Annotated[RunPolicy, Meta(description="When the job ends and what remains of it.")] = RunPolicy()
    success_policy: Annotated[
        Literal["Default", "AllWorkers"],
        Meta(
            description="When the job has succeeded, if it has neither a Master nor a Chief: once worker 0 has "
            "(`Default`), or once all workers have (`AllWorkers`)."
        ),
    ] = "Default"


class ReplicaStatus(ApiStruct, frozen=True, kw_only=True, omit_defaults=False):
    """The replicas of one role by state."""

    active: Annotated[int, Meta(description="Number of running pods.")] = 0
    succeeded: Annotated[int, Meta(description="Number of pods that succeeded.")] = 0
    failed: Annotated[int, Meta(description="Number of pods that failed and have not been replaced.")] = 0
    waiting_for_volumes: Annotated[
        int, Meta(description="Number of replicas that wait for a claim to be created or bound.")
    ] = 0


class TrainingJobStatus(ApiStruct, frozen=True, kw_only=True):
    """The observed state of a job."""

    conditions: Conditions = []
    observed_generation: Annotated[int, Meta(description="Generation of the object that this status describes.")] = 0
    start_time: Annotated[str, Meta(max_length=32, description="When the job started, or was last resumed.")] = ""
    completion_time: Annotated[str, Meta(max_length=32, description="When the job succeeded or failed.")] = ""
    replica_statuses: Annotated[
        dict[str, ReplicaStatus], Meta(max_length=16, description="State of the replicas by role.")
    ] = {}
    running: Annotated[
        str, Meta(max_length=32, description="Number of pods that run and of all replicas, as printed by kubectl.")
    ] = ""
    queue_position: Annotated[
        int,
        Meta(
            description="A bound on the position of the job's next claim in the queue of all claims: the next power of "
            "two; 0 if none is queued."
        ),
    ] = 0
    restarts: Annotated[
        int,
        Meta(
            description="Number of failed pods that were replaced, plus the container restarts in those pods. Restarts "
            "in existing pods are not included."
        ),
    ] = 0
    replacing: Annotated[
        list[Annotated[str, Meta(max_length=63)]],
        Meta(
            max_length=100,
            extra_json_schema={"x-kubernetes-list-type": "atomic"},
            description="UIDs of failed pods that `restarts` includes and that are about to be deleted.",
        ),
    ] = []


class TrainingJob(Object, frozen=True, kw_only=True):
    """Pods that train together, each with claims of its own."""

    spec: TrainingJobSpec
    status: TrainingJobStatus = TrainingJobStatus()
