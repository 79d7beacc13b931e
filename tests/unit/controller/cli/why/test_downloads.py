"""`larder why mc/x` and `larder why mdl/x` explain the status, and who has to act."""

from dataclasses import fields
from typing import Any, cast

import pytest

from controller.cli.why.downloads import why_model_cache, why_model_object
from controller.cli.why.findings import Diagnosis
from controller.cli.why.subject import Subject, parse_subject
from controller.cli.why.view import ClusterView, LeaseHolder
from controller.modelcaches.actions import WriteCacheStatus
from controller.modelcaches.report import status_of
from shared.api.meta import Condition
from shared.api.model import (
    HuggingFaceSource,
    Model,
    ModelObjectStatus,
    ModelPhase,
    ModelSource,
    ModelSpec,
    StorageSpec,
)
from shared.api.model_cache import CacheStatus, ModelCache
from shared.kube.objects import Meta
from tests.builders.model_caches import STAMP, cache

LED: dict[str, Any] = {field.name: () for field in fields(ClusterView)} | {"leader": LeaseHolder("one")}
CLUSTER = ClusterView(**LED)


@pytest.mark.parametrize(
    ("state", "reason", "summary", "failed"),
    [
        ("Ready", "Downloaded", "no problems found", False),
        ("Downloading", "Downloading", "Downloading", False),
        ("pvcCreated", "StorageClassNotFound", "StorageClassNotFound", False),
        ("Failed", "AuthDenied", "AuthDenied", True),
    ],
)
def test_the_diagnosis_follows_the_status_of_the_cache(state: str, reason: str, summary: str, failed: bool) -> None:  # noqa: FBT001
    write = WriteCacheStatus(cast("CacheStatus", state), reason, "m", is_stalled=failed)
    found = cache(status=status_of(cache(), write, STAMP))
    diagnosis = why_model_cache(found, CLUSTER)
    assert (diagnosis.summary, diagnosis.failed) == (summary, failed)


def test_a_cache_without_a_status_waits_for_the_controller() -> None:
    assert why_model_cache(cache(), CLUSTER).summary == "NotObserved"


@pytest.mark.parametrize("text", ["mc/llama", "modelcache/llama", "modelcaches.serving.kserve.io/llama"])
def test_a_model_cache_is_found_by_its_short_singular_and_full_name(text: str) -> None:
    assert parse_subject(text).within("team") == Subject("ModelCache", "team", "llama")


def model(status: ModelObjectStatus) -> Model:
    source = ModelSource(hugging_face=HuggingFaceSource(repo_id="org/llama"))
    spec = ModelSpec(source=source, storage=StorageSpec(storage_class="fast", size="1Gi"))
    return Model(metadata=Meta(name="llama", namespace="team", generation=2), spec=spec, status=status)


def ready(status: str, reason: str) -> list[Condition]:
    return [Condition(type="Ready", status=status, reason=reason, message="m", last_transition_time=STAMP)]


@pytest.mark.parametrize(
    ("phase", "holds", "reason", "summary", "failed"),
    [
        ("Ready", "True", "Downloaded", "no problems found", False),
        ("Downloading", "False", "Downloading", "Downloading", False),
        ("Pending", "False", "NameConflict", "NameConflict", False),
        ("Failed", "False", "AuthDenied", "AuthDenied", True),
    ],
)
def test_the_diagnosis_follows_the_status_of_a_model(
    phase: ModelPhase,
    holds: str,
    reason: str,
    summary: str,
    failed: bool,  # noqa: FBT001
) -> None:
    found = model(ModelObjectStatus(phase=phase, observed_generation=2, conditions=ready(holds, reason)))
    diagnosis = why_model_object(found, CLUSTER)
    assert (diagnosis.summary, diagnosis.failed) == (summary, failed)


_FAILURES = ("DeadlineExceeded", "InsufficientStorage", "InternalError", "OutOfMemory", "StoreFailure")


def failed_cache(reason: str) -> ModelCache:
    return cache(status=status_of(cache(), WriteCacheStatus("Failed", reason, "m", is_stalled=True), STAMP))


def failed_model(reason: str) -> Model:
    return model(ModelObjectStatus(phase="Failed", observed_generation=2, conditions=ready("False", reason)))


def remedy_of(diagnosis: Diagnosis, reason: str) -> str:
    (found,) = (finding for finding in diagnosis.findings if finding.reason == reason)
    return found.remedy


@pytest.mark.parametrize("reason", _FAILURES)
def test_the_remedy_for_a_failed_download_is_about_its_volume_and_job(reason: str) -> None:
    found = (why_model_cache(failed_cache(reason), CLUSTER), why_model_object(failed_model(reason), CLUSTER))
    for remedy in (remedy_of(one, reason) for one in found):
        assert remedy
        assert not any(word in remedy for word in ("storageLimit", "metadata", "the agent", "node", "pods wait"))


def test_a_volume_that_is_too_small_can_be_enlarged_where_its_size_is_declared() -> None:
    of_cache = remedy_of(why_model_cache(failed_cache("InsufficientStorage"), CLUSTER), "InsufficientStorage")
    assert of_cache.startswith("raise resources.requests.storage of the claim")
    of_model = remedy_of(why_model_object(failed_model("InsufficientStorage"), CLUSTER), "InsufficientStorage")
    assert of_model.startswith("raise spec.storage.size")


def test_a_download_that_was_too_slow_or_needed_too_much_memory_has_the_remedy_for_a_job() -> None:
    slow = remedy_of(why_model_cache(failed_cache("DeadlineExceeded"), CLUSTER), "DeadlineExceeded")
    assert slow == "if this repeats, check the speed of the source and of the volume"
    killed = remedy_of(why_model_object(failed_model("OutOfMemory"), CLUSTER), "OutOfMemory")
    assert killed == "if this repeats, report it with the log of the Job's pod"


def test_other_reasons_of_a_download_have_the_remedy_that_they_have_for_any_model() -> None:
    assert "Secret" in remedy_of(why_model_cache(failed_cache("AuthDenied"), CLUSTER), "AuthDenied")


def test_a_model_whose_newest_spec_was_not_observed_names_the_setting_to_check() -> None:
    stale = ModelObjectStatus(phase="Ready", observed_generation=1, conditions=ready("True", "Downloaded"))
    (finding,) = why_model_object(model(stale), CLUSTER).findings[:1]
    assert finding.reason == "NotObserved"
    assert "that models.enabled is true in the chart" in finding.remedy


@pytest.mark.parametrize("text", ["mdl/llama", "model/llama", "models.models.example.com/llama"])
def test_a_model_is_found_by_its_short_singular_and_full_name(text: str) -> None:
    assert parse_subject(text).within("team") == Subject("Model", "team", "llama")
