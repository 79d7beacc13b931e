"""What injection knows about a Model. No input or output."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.api.model import Model, ModelSource

READY = "Ready"
_LONGEST_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class InjectableModel:
    """A Model as pods see it.

    Args:
        name: Its name, in the namespace of the pod.
        phase: `status.phase`; pods can mount only a model that is Ready.
        claim: Name of the claim with the files.
        message: `status.message`, for a refusal.
        version: `spec.version`.
        source_type: The type of its source, the value of `MODEL_<NAME>_SOURCE_TYPE`.
        source: The values of the other variables about the source, by the suffix of their names.
        sub_path: Directory of the files on the claim; empty if they are at its root.
        deleting: Whether it is being deleted.
    """

    name: str
    phase: str
    claim: str
    message: str = ""
    version: str = ""
    source_type: str = ""
    source: Mapping[str, str] = field(default_factory=dict)
    sub_path: str = ""
    deleting: bool = False

    @property
    def usable(self) -> bool:
        """Whether pods can mount it now."""
        return self.phase == READY and not self.deleting


def injectable_model(model: Model) -> InjectableModel:
    """Return a Model as pods see it."""
    status, kind, source = model.status, *_source_of(model.spec.source)
    return InjectableModel(
        name=model.metadata.name,
        phase=status.phase or "Pending",
        claim=status.pvc_name,
        message=status.message[:_LONGEST_MESSAGE],
        version=model.spec.version,
        source_type=kind,
        source=source,
        sub_path=status.path,
        deleting=model.metadata.deletion_timestamp is not None,
    )


def _source_of(source: ModelSource) -> tuple[str, Mapping[str, str]]:
    """Return the type of a source, and the values of the variables that describe it."""
    if source.hugging_face is not None:
        return "huggingface", {"REPO_ID": source.hugging_face.repo_id}
    if source.url is not None:
        return "url", {"URL": source.url.url}
    if source.s3 is not None:
        return "s3", {"BUCKET": source.s3.bucket}
    if source.gitlfs is not None:
        return "gitlfs", {"REPO_URL": source.gitlfs.repo_url}
    if source.oci is not None:
        return "oci", {"REF": source.oci.ref}
    if source.plugin is not None:
        return source.plugin.uri.partition("://")[0], {"URI": source.plugin.uri}
    return "", {}
