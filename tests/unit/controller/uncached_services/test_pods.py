"""Which services have pods that kept their own download, and why."""

from typing import Any

import pytest

from controller.admission.pods.pod_annotations import ENABLE_CACHE, KSERVE_LABEL, NOT_CACHED
from controller.uncached_services.keys import UncachedServiceKey
from controller.uncached_services.pods import UncachedPods
from controller.uncached_services.services import is_uncached, service_of
from shared.api.core import Pod, StatusWithConditions
from tests.builders.cluster import meta

LLAMA = UncachedServiceKey("InferenceService", "team", "llama")


def pod(name: str = "p", reason: str = "no cache", *, phase: str = "Pending", asks: str = "true",
        **fields: Any) -> Pod:  # fmt: skip
    annotations = {ENABLE_CACHE: asks} | ({NOT_CACHED: reason} if reason else {})
    labels = {KSERVE_LABEL: "llama"}
    found = meta(name, namespace="team", labels=labels, annotations=annotations, **fields)
    return Pod(metadata=found, status=StatusWithConditions(phase=phase))


@pytest.mark.parametrize(
    ("found", "uncached"),
    [
        (pod(), True),
        (pod(asks="yes"), True),
        (pod(asks="false"), False),
        (pod(asks="False"), False),
        (pod(reason=""), False),
        (pod(phase="Succeeded"), False),
        (pod(deletion_timestamp="2026-01-01T00:00:00Z"), False),
    ],
)
def test_a_live_pod_that_requested_a_cache_and_has_a_reason_is_uncached(found: Pod, *, uncached: bool) -> None:
    assert is_uncached(found) is uncached


def test_the_service_of_a_pod_is_found_by_the_labels_of_its_kind() -> None:
    assert service_of("InferenceService", pod()) == LLAMA
    assert service_of("LLMInferenceService", pod()) is None
    labels = {"app.kubernetes.io/part-of": "llminferenceservice", "app.kubernetes.io/name": "chat"}
    large = Pod(metadata=meta("p", namespace="team", labels=labels))
    assert service_of("LLMInferenceService", large) == UncachedServiceKey("LLMInferenceService", "team", "chat")


def test_a_service_is_announced_for_a_new_reason_but_not_for_other_changes() -> None:
    pods, announced = UncachedPods("InferenceService"), list[UncachedServiceKey]()
    pods.changed.listen(announced.append)
    pods.upsert(pod())
    pods.upsert(pod(phase="Running"))
    assert announced == [LLAMA]
    pods.upsert(pod(reason="no room"))
    assert announced == [LLAMA, LLAMA]
    assert list(pods.services()) == [LLAMA]


def test_reasons_are_those_of_existing_pods_newest_first() -> None:
    pods = UncachedPods("InferenceService")
    old, new = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    pods.replace([pod("a", "older", creation_timestamp=old), pod("b", "newer", creation_timestamp=new),
                  pod("c", "newer", creation_timestamp=old), pod("d", "")])  # fmt: skip
    assert pods.reasons_of(LLAMA) == {"newer": "b", "older": "a"}
    assert list(pods.reasons_of(LLAMA)) == ["newer", "older"]
    pods.upsert(pod("b", ""))
    pods.remove(pod("c").key)
    assert list(pods.reasons_of(LLAMA)) == ["older"]
    pods.replace([])
    assert (pods.reasons_of(LLAMA), list(pods.services())) == ({}, [])


def test_only_a_shortened_reason_of_a_pod_is_kept_in_memory() -> None:
    pods = UncachedPods("InferenceService")
    large = pod("p", "x" * 200_000, owner_references=[{"name": "x" * 200_000, "uid": "u"}])
    large.metadata.annotations["more"] = "x" * 200_000
    pods.upsert(large)
    assert list(pods.reasons_of(LLAMA)) == ["x" * 1000]
    assert len(repr(pods._pods.get(large.key))) < 5000
