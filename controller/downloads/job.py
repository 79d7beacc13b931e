"""The Job that downloads a model to a claim: no token, and no Secret of another namespace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shared.download_report import NEEDS_ACTION, PROGRESS_PORT
from shared.json_object import Json
from shared.kube.objects import Meta

COMPONENT = ("app.kubernetes.io/component", "model-download")
# Names and resources of the pod are those of the Model operator specification.
CONTAINER, VOLUME, CLAIM_MOUNT = "downloader", "model-storage", "/models"
# What the Job needs to know about the cluster's sources. Values with the administrator's credentials are left out.
SOURCE_VARIABLES = (
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AZURE_STORAGE_SERVICE_ENDPOINT",
    "HF_ENDPOINT",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LARDER_ALLOW_ADDRESSES",
    "LARDER_REGISTRIES",
    "LARDER_S3_ADDRESSING",
    "NO_PROXY",
    "OCI_CLI_ENDPOINT",
    "OCI_CLI_REGION",
    "STORAGE_EMULATOR_HOST",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)
MEMORY_LIMIT = "2Gi"
_USER = 65532
_SECRET_MOUNT, _CA_MOUNT, _CA_FILE = "/credentials", "/etc/larder/sources", "ca-bundle.crt"
RETRIES = 3
DEADLINE_S = 6 * 3600  # after which a Job ends; the next one continues


@dataclass(frozen=True, slots=True)
class DownloadJobSettings:
    """Settings from the chart.

    Args:
        image: The agent's image.
        pull_policy: Its pull policy.
        pull_secrets: Secrets of the Job's namespace to pull it with.
        tolerations: Tolerated taints.
        environment: `SOURCE_VARIABLES` and their values.
        ca_config_map: ConfigMap of the Job's namespace with the CA certificates of the sources; empty for none.
        ca_key: Its key.
    """

    image: str
    pull_policy: str = "IfNotPresent"
    pull_secrets: Sequence[Json] = ()
    tolerations: Sequence[Json] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    ca_config_map: str = ""
    ca_key: str = "ca-bundle.crt"


@dataclass(frozen=True, slots=True)
class DownloadJob:
    """A Job that downloads to a claim.

    Args:
        name: Its name.
        owner: Metadata of the object that it belongs to, in whose namespace it runs.
        owner_type: `apiVersion` and `kind` of the owner.
        labels: Labels of the Job and its pods.
        annotation: Key of the pods' annotation with the name of the owner.
        claim: Name of the claim, mounted at `CLAIM_MOUNT`.
        uri: Canonical URI of the source.
        arguments: Arguments of `larder fill` before the URI.
        node_selector: Labels that the node must have.
        node: Node that it should run on; empty for any.
        secret: Name of the Secret with credentials; empty for none.
        keys: The keys of the Secret to mount.
        hosts: Hosts that may receive them; empty for those of the source.
        are_keys_optional: Whether the Secret, or some of its keys, may be missing.
        kept_s: Seconds for which the Job is kept once it has ended.
    """

    name: str
    owner: Meta
    owner_type: tuple[str, str]
    labels: Mapping[str, str]
    annotation: str
    claim: str
    uri: str
    arguments: Sequence[str]
    node_selector: Mapping[str, str]
    secret: str
    keys: Sequence[str]
    hosts: Sequence[str]
    are_keys_optional: bool
    kept_s: int
    node: str = ""


def source_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for Jobs; proxies with a password are left out, because a tenant can read its pods."""
    known = {name: environ[name] for name in SOURCE_VARIABLES if environ.get(name)}
    return {name: value for name, value in known.items() if "@" not in value}


def owner_reference(owner: Meta, owner_type: tuple[str, str]) -> Json:
    """Return the reference to the owner that controls a Job or a claim."""
    api_version, kind = owner_type
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def job_manifest(job: DownloadJob, settings: DownloadJobSettings) -> Json:
    """Return the Job."""
    labels = dict(job.labels) | {"app.kubernetes.io/name": "larder", COMPONENT[0]: COMPONENT[1]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job.name,
            "namespace": job.owner.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(job.owner, job.owner_type)],
        },
        "spec": {
            "backoffLimit": RETRIES,
            "activeDeadlineSeconds": DEADLINE_S,
            "ttlSecondsAfterFinished": job.kept_s,
            "podFailurePolicy": {
                "rules": [
                    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [NEEDS_ACTION]}},
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            },
            "template": {
                # a mesh's sidecar would outlive the only container, and the Job would never complete
                "metadata": {
                    "labels": labels | {"sidecar.istio.io/inject": "false"},
                    "annotations": {job.annotation: job.owner.name, "linkerd.io/inject": "disabled"},
                },
                "spec": _pod_spec(job, settings),
            },
        },
    }


def _pod_spec(job: DownloadJob, settings: DownloadJobSettings) -> Json:
    volumes: list[Json] = [
        {"name": VOLUME, "persistentVolumeClaim": {"claimName": job.claim}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
    ]
    if job.secret:
        items = [{"key": key, "path": key} for key in sorted(job.keys)]
        secret: Json = {"secretName": job.secret, "items": items, "defaultMode": 0o440}
        volumes.append(
            {"name": "credentials", "secret": secret | ({"optional": True} if job.are_keys_optional else {})}
        )
    if settings.ca_config_map:
        items = [{"key": settings.ca_key, "path": _CA_FILE}]
        volumes.append({"name": "sources-ca", "configMap": {"name": settings.ca_config_map, "items": items}})
    spec: Json = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 10,
        "nodeSelector": {"kubernetes.io/os": "linux"} | dict(job.node_selector),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(job, settings)],
        "volumes": volumes,
    }
    if job.node:
        spec["affinity"] = _preferred_node(job.node)
    if settings.pull_secrets:
        spec["imagePullSecrets"] = list(settings.pull_secrets)
    if settings.tolerations:
        spec["tolerations"] = list(settings.tolerations)
    return spec


def _preferred_node(node: str) -> Json:
    """Return a preference, not a requirement: many drivers let several nodes mount a ReadWriteOnce claim."""
    name = {"key": "metadata.name", "operator": "In", "values": [node]}
    preferred = [{"weight": 100, "preference": {"matchFields": [name]}}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _container(job: DownloadJob, settings: DownloadJobSettings) -> Json:
    mounts: list[Json] = [
        {"name": VOLUME, "mountPath": CLAIM_MOUNT},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
    ]
    variables = {"HOME": "/tmp"} | dict(sorted(settings.environment.items()))  # noqa: S108 - as above
    arguments = list(job.arguments)
    if job.secret:
        mounts.append({"name": "credentials", "mountPath": _SECRET_MOUNT, "readOnly": True})
        arguments += [f"--credentials={_SECRET_MOUNT}", *(f"--host={host}" for host in job.hosts)]
    if settings.ca_config_map:
        mounts.append({"name": "sources-ca", "mountPath": _CA_MOUNT, "readOnly": True})
        variables["SSL_CERT_FILE"] = f"{_CA_MOUNT}/{_CA_FILE}"
    arguments += ["--", job.uri]
    return {
        "name": CONTAINER,
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        "command": ["/opt/venv/bin/python", "-m", "shared.cli", "fill"],
        "args": [argument.replace("$", "$$") for argument in arguments],  # keep kubelet from expanding variables
        "env": [{"name": name, "value": value.replace("$", "$$")} for name, value in variables.items()],
        "ports": [{"name": "progress", "containerPort": PROGRESS_PORT}],
        "terminationMessagePolicy": "File",
        "resources": {
            "requests": {"cpu": "500m", "memory": "512Mi", "ephemeral-storage": "16Mi"},
            "limits": {"cpu": "2", "memory": MEMORY_LIMIT, "ephemeral-storage": "128Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }
