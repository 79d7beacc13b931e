"""The claim and the download Job of a Model. No input or output, no clock."""

import hashlib
import json
from dataclasses import dataclass

from controller.downloads.job import CLAIM_MOUNT, DownloadJob, DownloadJobSettings, job_manifest, owner_reference
from controller.modeloperator.source import DownloadSource
from shared.api.model import GROUP, VERSION, Model, ModelSpec
from shared.json_object import Json
from shared.kube.objects import Meta, Object

OWNER_TYPE = (f"{GROUP}/{VERSION}", "Model")
CLAIM_PREFIX, JOB_PREFIX = "model-", "model-download-"
MODEL_LABEL = "larder.dev/model-claim"  # on the claim and the Job of a Model: the uid of the Model
WANTED_LABEL = "larder.dev/download"  # on the Job: identifies its download and claim
SIZE_LABEL = "larder.dev/claim-size"  # on the Job: the claim's requested size when the Job was created
SETTINGS_LABEL = "larder.dev/download-settings"  # on the Job: identifies where it runs, and with which Secret
MODEL_ANNOTATION = "larder.dev/download-of-model"  # on the Job's pods: the name of the Model
REVISIONS = ".revisions"  # directory on the claim for downloads next to the files at its root
LONGEST_NAME = 63 - len(JOB_PREFIX)  # the Job's name becomes a label of its pods
_KEPT_S, _DIGEST_HEX = 3600, 16


@dataclass(frozen=True, slots=True)
class ModelDownload:
    """A requested download.

    Args:
        wanted: Digest of what to download.
        claim_uid: UID of the claim.
        path: Directory on the claim; empty for its root.
        kept: Directories of other versions that stay, `.` for the root; empty if everything stays.
        size: Size that the claim requests.
        node: Node that already mounts the claim; others may be unable to mount it meanwhile.
    """

    wanted: str
    claim_uid: str
    path: str = ""
    kept: tuple[str, ...] = ()
    size: str = ""
    node: str = ""

    @property
    def label(self) -> str:
        """Identifies this download's Job among all Jobs of this name."""
        return f"{self.wanted}.{self.claim_uid}"[:63]


def claim_name(model: Meta) -> str:
    """Return the name of the claim."""
    return f"{CLAIM_PREFIX}{model.name}"


def job_name(model: Meta) -> str:
    """Return the name of the Job."""
    return f"{JOB_PREFIX}{model.name}"


def model_labels(model: Meta) -> dict[str, str]:
    """Return the labels of all objects that Larder creates for a Model."""
    return {MODEL_LABEL: model.uid, "app.kubernetes.io/managed-by": "larder"}


def settings_digest(spec: ModelSpec) -> str:
    """Return a digest of what the Job's pod gets from a spec besides the source: its node selector and its Secret."""
    text = json.dumps([sorted(spec.node_selector.items()), spec.credentials_secret])
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_HEX]


def is_of(found: Object, model: Meta) -> bool:
    """Return whether Larder created an object for a Model."""
    owned = any(owner.get("uid") == model.uid for owner in found.metadata.owner_references)
    return owned and found.metadata.labels.get(MODEL_LABEL) == model.uid


def claim_manifest(model: Model) -> Json:
    """Return the PersistentVolumeClaim."""
    meta, storage = model.metadata, model.spec.storage
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim_name(meta),
            "namespace": meta.namespace,
            "labels": model_labels(meta),
            "ownerReferences": [owner_reference(meta, OWNER_TYPE)],
        },
        "spec": {
            "storageClassName": storage.storage_class,
            "accessModes": list(storage.access_modes),
            "resources": {"requests": {"storage": storage.size}},
            "volumeMode": "Filesystem",
        },
    }


def download_manifest(
    model: Model, download: ModelDownload, source: DownloadSource, settings: DownloadJobSettings
) -> Json:
    """Return the Job."""
    meta = model.metadata
    to = f"{CLAIM_MOUNT}/{download.path}".rstrip("/")
    kept = [f"--keep={path}" for path in download.kept]
    return job_manifest(
        DownloadJob(
            name=job_name(meta),
            owner=meta,
            owner_type=OWNER_TYPE,
            labels=model_labels(meta)
            | {WANTED_LABEL: download.label, SIZE_LABEL: download.size, SETTINGS_LABEL: settings_digest(model.spec)},
            annotation=MODEL_ANNOTATION,
            claim=claim_name(meta),
            uri=str(source.uri),
            arguments=[f"--to={to}", "--no-mark", *kept, *source.arguments],
            node_selector=model.spec.node_selector,
            node=download.node,
            secret=model.spec.credentials_secret if source.keys else "",
            keys=source.keys,
            hosts=source.hosts,
            are_keys_optional=True,
            kept_s=_KEPT_S,
        ),
        settings,
    )
