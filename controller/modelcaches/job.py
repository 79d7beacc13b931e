"""The Job that downloads a model to the claim of a ModelCache."""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.downloads.job import CLAIM_MOUNT, DownloadJob, DownloadJobSettings, job_manifest
from controller.modelcaches.objects import OWNER_TYPE, cache_labels
from shared.api.model_cache import MODEL_DIRECTORY, ModelCache
from shared.json_object import Json
from shared.metadata.reading.attempts import identity_of
from shared.selection.choice import Selection

JOB_PREFIX = "larder-fill-"
CACHE_ANNOTATION = "larder.dev/download-of"  # on the Job's pods: the name of the cache
_KEPT_AFTER_S = 60  # time for a new leader to read the result; until then, its pods block deletion of the claim


@dataclass(frozen=True, slots=True)
class DownloadOrder:
    """A requested download.

    Args:
        job: Name of the Job.
        claim: Name of the claim.
        uri: Canonical URI of the source.
        revision: The revision that it was resolved to.
        selection: The chosen files.
        limit_bytes_s: Bytes per second; 0 is no limit.
    """

    job: str
    claim: str
    uri: str
    revision: str
    selection: Selection
    limit_bytes_s: int = 0


def job_name(cache: ModelCache, claim_uid: str, revision: str) -> str:
    """Return the name of the Job of the present attempt; another for whatever a Job cannot change once it exists."""
    spec, attempt = cache.spec, str(cache.status.attempts)
    selector = [f"{name}={value}" for name, value in sorted(spec.node_selector.items())]
    secret = [spec.credentials_secret] if spec.credentials_secret else []
    return f"{JOB_PREFIX}{identity_of(cache.metadata.uid, claim_uid, revision, attempt, *selector, *secret)}"


def download_job(
    cache: ModelCache, order: DownloadOrder, keys: Sequence[str], hosts: Sequence[str], settings: DownloadJobSettings
) -> Json:
    """Return the Job, owned by the cache; `keys` of its Secret go to `hosts` alone."""
    to = f"--to={CLAIM_MOUNT}/{MODEL_DIRECTORY}"
    job = DownloadJob(
        name=order.job,
        owner=cache.metadata,
        owner_type=OWNER_TYPE,
        labels=cache_labels(cache.metadata),
        annotation=CACHE_ANNOTATION,
        claim=order.claim,
        uri=order.uri,
        arguments=[
            to,
            f"--revision={order.revision}",
            f"--limit={order.limit_bytes_s}",
            *_selection(order.selection),
        ],
        node_selector=cache.spec.node_selector,
        secret=cache.spec.credentials_secret if keys else "",
        keys=keys,
        hosts=hosts,
        are_keys_optional=False,
        kept_s=_KEPT_AFTER_S,
    )
    return job_manifest(job, settings)


def _selection(selection: Selection) -> list[str]:
    patterns = [f"--allow={pattern}" for pattern in selection.allow]
    patterns += [f"--ignore={pattern}" for pattern in selection.ignore]
    duplicates = [f"--duplicate-weights={selection.duplicates}"]
    return [*patterns, *duplicates, *([] if selection.pickle else ["--no-pickle"])]
