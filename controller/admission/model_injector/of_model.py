"""Describes a Model to injection. No input or output."""

from collections.abc import Mapping

from controller.admission.injectable_model import InjectableModel
from shared.api.model import Model, ModelSource

_LONGEST_MESSAGE = 500


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
    """Return the type of a source, and what variables state about it."""
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
