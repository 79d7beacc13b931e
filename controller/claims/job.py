"""The Job that reads metadata on a claim: needs no token or network, writes only its termination message."""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.claims.outcome import DEADLINE_S, MEMORY_LIMIT
from controller.claims.read_request import ClaimReadRequest
from controller.jobs.observed_jobs import ClaimPod
from controller.placement.claim_place import ClaimPath
from controller.state.keys import ModelKey
from shared.api.base_model import GROUP, VERSION
from shared.json_object import Json

MODEL_ANNOTATION = "larder.dev/metadata-of"
COMPONENT = ("app.kubernetes.io/component", "metadata")
_KEPT_AFTER_S = 60  # time for a new leader to read the result; until then, the pod blocks deletion of the claim
_RETRIES = 2
_USER = 65532
_MOUNT = "/claim"


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Settings from the chart: the agent's image, its pull policy and Secrets, and the tolerated taints."""

    image: str
    pull_policy: str = "IfNotPresent"
    tolerations: Sequence[Json] = ()
    pull_secrets: Sequence[Json] = ()


def job_manifest(
    key: ModelKey, uid: str, place: ClaimPath, request: ClaimReadRequest, holder: ClaimPod | None, settings: JobSettings
) -> Json:
    """Return the Job, owned by the model; with a `holder`, its pod runs on the node of that pod."""
    labels = {"app.kubernetes.io/name": "larder", COMPONENT[0]: COMPONENT[1], "app.kubernetes.io/part-of": "larder"}
    annotations = {MODEL_ANNOTATION: model_text(key)}
    owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": key.kind, "name": key.name, "uid": uid}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": request.job,
            "namespace": place.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner | {"blockOwnerDeletion": False, "controller": True}],
        },
        "spec": {
            "backoffLimit": _RETRIES,
            "activeDeadlineSeconds": DEADLINE_S,
            "ttlSecondsAfterFinished": _KEPT_AFTER_S,
            "template": {
                # a mesh's sidecar would outlive the only container, and the Job would never complete
                "metadata": {
                    "labels": labels | {"sidecar.istio.io/inject": "false"},
                    "annotations": annotations | {"linkerd.io/inject": "disabled"},
                },
                "spec": _pod_spec(place, holder, settings),
            },
        },
    }


def model_text(key: ModelKey) -> str:
    """Return a model's name as recorded on the Job and its pods."""
    return f"{key.kind}/{key.namespace}/{key.name}"


def model_key(text: str) -> ModelKey | None:
    """Return the model that such a text names, or None if it names none."""
    match text.split("/"):
        case ["BaseModel" | "ClusterBaseModel" as kind, namespace, name]:
            return ModelKey(kind, namespace, name)
    return None


def _pod_spec(place: ClaimPath, holder: ClaimPod | None, settings: JobSettings) -> Json:
    spec: Json = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        # no fsGroup: kubelet would change the group of every file on the claim
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(place.sub_path, settings)],
        "volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": place.claim, "readOnly": True}}],
    }
    if settings.pull_secrets:
        spec["imagePullSecrets"] = list(settings.pull_secrets)
    tolerations = [*settings.tolerations, *(holder.spec.tolerations if holder else ())]
    if tolerations:
        spec["tolerations"] = tolerations
    if holder is not None:
        field = {"key": "metadata.name", "operator": "In", "values": [holder.spec.node_name]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return spec


def _container(sub_path: str, settings: JobSettings) -> Json:
    literal = sub_path.replace("$", "$$")  # keep kubelet from expanding variables
    return {
        "name": "extract",
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        "command": ["/opt/venv/bin/python", "-m", "shared.cli", "extract"],
        "args": [f"--root={_MOUNT}", f"--path={literal}"],
        "terminationMessagePolicy": "File",
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "1Mi"},
            "limits": {"cpu": "500m", "memory": MEMORY_LIMIT, "ephemeral-storage": "16Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "claim", "mountPath": _MOUNT, "readOnly": True}],
    }
