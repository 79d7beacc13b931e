"""`larder why mc/x` and `larder why mdl/x` explain the status, and who has to act."""

from dataclasses import fields
from typing import Any, cast

import pytest

from controller.cli.why.downloads import why_model_cache, why_model_object
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
from shared.api.model_cache import CacheStatus
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


def test_a_model_whose_newest_spec_was_not_observed_names_the_setting_to_check() -> None:
    stale = ModelObjectStatus(phase="Ready", observed_generation=1, conditions=ready("True", "Downloaded"))
    (finding,) = why_model_object(model(stale), CLUSTER).findings[:1]
    assert finding.reason == "NotObserved"
    assert "models.enabled" in finding.remedy


@pytest.mark.parametrize("text", ["mdl/llama", "model/llama", "models.models.example.com/llama"])
def test_a_model_is_found_by_its_short_singular_and_full_name(text: str) -> None:
    assert parse_subject(text).within("team") == Subject("Model", "team", "llama")
