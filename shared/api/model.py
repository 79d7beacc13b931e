"""Model (`models.example.com/v1alpha1`): a model that a Job downloads to a claim of its own."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shared.api.meta import ApiStruct, Conditions, GitRevision, Labels
from shared.kube.objects import Object

GROUP = "models.example.com"
VERSION = "v1alpha1"
AccessMode = Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]
# CEL rules over the whole object, each with the message for objects that break it.
RULES = (
    (
        (
            "[has(self.spec.source.huggingFace), has(self.spec.source.url), has(self.spec.source.s3), "
            "has(self.spec.source.gitlfs), has(self.spec.source.oci), has(self.spec.source.plugin)]"
            ".filter(is_set, is_set).size() == 1"
        ),
        "set exactly one of huggingFace, url, s3, gitlfs, oci and plugin in spec.source",
    ),
)


def _read_write_once() -> list[AccessMode]:
    return ["ReadWriteOnce"]


class HuggingFaceSource(ApiStruct, frozen=True, kw_only=True):
    """A repository of the Hugging Face Hub."""

    repo_id: Annotated[
        str,
        Meta(
            max_length=256,
            pattern="^[a-zA-Z0-9_.-]+/[a-zA-Z0-9_.-]+$",
            description="ID of the repository, for example `meta-llama/Llama-3.1-8B-Instruct`.",
        ),
    ]
    revision: GitRevision = "main"


class UrlSource(ApiStruct, frozen=True, kw_only=True):
    """A file on a web server."""

    url: Annotated[
        str,
        Meta(
            max_length=2048,
            pattern="^https?://",
            description="URL of the file, which becomes the file `model`.",
        ),
    ]


class BucketSource(ApiStruct, frozen=True, kw_only=True):
    """An object in an S3-compatible store, or everything below a prefix."""

    bucket: Annotated[str, Meta(min_length=1, max_length=255, description="Name of the bucket.")]
    key: Annotated[str, Meta(min_length=1, max_length=1024, description="Key of the object, or a prefix.")]
    endpoint: Annotated[
        str, Meta(max_length=2048, description="URL of the store. Defaults to the one that the administrator set.")
    ] = ""
    region: Annotated[str, Meta(max_length=63, description="Region of the bucket.")] = ""


class GitLfsSource(ApiStruct, frozen=True, kw_only=True):
    """A Git repository whose large files are in Git LFS."""

    repo_url: Annotated[
        str, Meta(max_length=2048, pattern="^https?://", description="URL of the repository, as for `git clone`.")
    ]
    revision: GitRevision = "main"


class OciSource(ApiStruct, frozen=True, kw_only=True):
    """An artifact in a container registry, one file per layer."""

    ref: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=1024,
            description="Reference of the artifact: `REGISTRY/REPOSITORY:TAG` or `REGISTRY/REPOSITORY@sha256:DIGEST`.",
        ),
    ]


class PluginSource(ApiStruct, frozen=True, kw_only=True):
    """A source that a plugin adds."""

    uri: Annotated[
        str,
        Meta(
            max_length=2048,
            pattern="^[a-z][a-z0-9+.-]*://",
            description="URI of a scheme that a plugin adds, for example `model-registry://llama/3.1`.",
        ),
    ]


class ModelSource(ApiStruct, frozen=True, kw_only=True):
    """Where the files come from. Exactly one field is set."""

    hugging_face: Annotated[HuggingFaceSource | None, Meta(description="A repository of the Hugging Face Hub.")] = None
    url: Annotated[UrlSource | None, Meta(description="A file on a web server.")] = None
    s3: Annotated[BucketSource | None, Meta(description="Objects in an S3-compatible store.")] = None
    gitlfs: Annotated[GitLfsSource | None, Meta(description="A Git repository with Git LFS.")] = None
    oci: Annotated[OciSource | None, Meta(description="An artifact in a container registry.")] = None
    plugin: Annotated[PluginSource | None, Meta(description="A source that a plugin adds.")] = None


class StorageSpec(ApiStruct, frozen=True, kw_only=True):
    """The claim that stores the files."""

    storage_class: Annotated[
        str, Meta(min_length=1, max_length=253, description="Name of the StorageClass, for example `gp3`.")
    ]
    size: Annotated[
        str,
        Meta(max_length=32, pattern="^[0-9]+[KMGTPE]i?$", description="Size of the claim, for example `20Gi`."),
    ]
    access_modes: Annotated[
        list[AccessMode],
        Meta(
            min_length=1,
            max_length=4,
            description="Access modes of the claim. Defaults to `[ReadWriteOnce]`.",
            extra_json_schema={"x-larder-default": ["ReadWriteOnce"], "x-kubernetes-list-type": "atomic"},
        ),
    ] = msgspec.field(default_factory=_read_write_once)


class ModelSpec(ApiStruct, frozen=True, kw_only=True):
    """The desired state of a model: its source, and the claim that stores it."""

    source: Annotated[ModelSource, Meta(description="Where the files come from. Set exactly one field.")]
    storage: Annotated[StorageSpec, Meta(description="The claim that stores the files.")]
    version: Annotated[
        str, Meta(max_length=128, description="Version of the model, for people. Changing it starts a new download.")
    ] = ""
    credentials_secret: Annotated[
        str,
        Meta(
            max_length=253,
            description="Name of a Secret in the same namespace: the key `HF_TOKEN` for Hugging Face, "
            "`AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` for S3, `token` or `username` and `password` for Git LFS, "
            "`.dockerconfigjson` for a registry, `token` or `username` and `password` for a plugin.",
        ),
    ] = ""
    node_selector: Annotated[Labels, Meta(description="Labels that the node of the download must have.")] = {}


ModelPhase = Literal["Pending", "Downloading", "Ready", "Failed"]


class ModelObjectStatus(ApiStruct, frozen=True, kw_only=True):
    """The observed state of a Model."""

    phase: Annotated[ModelPhase | None, Meta(description="State of the model.")] = None
    pvc_name: Annotated[str, Meta(max_length=253, description="Name of the claim.")] = ""
    message: Annotated[str, Meta(max_length=32768, description="What the model waits for, or what failed.")] = ""
    progress: Annotated[int, Meta(ge=0, le=100, description="Progress of the download in percent.")] = 0
    conditions: Conditions = []
    observed_generation: Annotated[int, Meta(description="Generation of the object that this status describes.")] = 0
    claim_uid: Annotated[str, Meta(max_length=63, description="UID of the claim that has the files.")] = ""
    root_download: Annotated[
        str,
        Meta(
            max_length=64,
            description="Digest of the source and version that the root of the claim is for. Others get a directory.",
        ),
    ] = ""
    path: Annotated[
        str,
        Meta(max_length=253, description="Directory on the claim that pods mount; empty if it is the claim's root."),
    ] = ""
    downloaded: Annotated[
        str, Meta(max_length=64, description="Digest of the source and version that are complete on the claim.")
    ] = ""
    revision: Annotated[str, Meta(max_length=128, description="Commit or digest that was downloaded.")] = ""


class Model(Object, frozen=True, kw_only=True):
    """A model on a claim of its own."""

    spec: ModelSpec
    status: ModelObjectStatus = ModelObjectStatus()
