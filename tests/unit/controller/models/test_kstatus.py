"""The kstatus of models, services and groups in each of their states."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.claims.decide import decide as decide_claim
from controller.claims.status import claim_status
from controller.claims.view import ClaimView
from controller.groups.decide import GroupMember, decide_status
from controller.inferenceservices.report import status_of
from controller.inferenceservices.view import ServiceView
from controller.jobs.observed_jobs import ContainerState, Waiting
from controller.manager.conditions import ConditionUpdate, with_conditions
from controller.models.decide import RecordResolution
from controller.models.kstatus import TRANSIENT
from controller.models.report import report
from controller.models.status import base_model_status, cache_status, recorded_status
from controller.models.view import ModelView, Obstacle
from shared.api.base_model import BaseModelStatus
from shared.api.cluster_model_cache import ClusterModelCacheStatus
from shared.api.core import ObservedCondition
from shared.api.meta import ABNORMAL, Condition
from shared.api.model_cache_node_group import ModelCacheNodeGroup, ModelCacheNodeGroupSpec
from shared.api.model_node import Phase
from shared.json_object import Json
from shared.kube.objects import Meta
from tests.builders.claims import NOW, after, claim, job, job_pod, read, reported
from tests.builders.claims import view as on_claim
from tests.builders.models import R2, STAMP, node, view
from tests.builders.services import MISSING, WAITING, deployment
from tests.builders.services import view as service
from tests.readers.kstatus import Status, kstatus

LATE = ObservedCondition(type="Failed", status="True", reason="DeadlineExceeded")
IMAGE = job_pod("Pending", ContainerState(waiting=Waiting(reason="ImagePullBackOff")))


def shown(status: msgspec.Struct, generation: int = 3) -> Json:
    """Return an object with this status, as the API server would."""
    return {"metadata": {"generation": generation}, "status": msgspec.to_builtins(status)}


def of_cache(seen: ModelView) -> Status:
    return kstatus(shown(cache_status(seen, report(seen), ClusterModelCacheStatus(), STAMP)))


def of_base_model(seen: ModelView) -> Status:
    return kstatus(shown(base_model_status(seen, report(seen), BaseModelStatus(), STAMP)))


READY, DOWNLOADING = node("a", Phase.READY), node("b", Phase.DOWNLOADING)


@pytest.mark.parametrize(
    ("seen", "cache", "base_model"),
    [
        (view(resolution=None), "InProgress", "InProgress"),
        (view(), "InProgress", "InProgress"),
        (view(node("a")), "InProgress", "InProgress"),
        (view(node("a", ready=False)), "InProgress", "InProgress"),
        (view(READY, DOWNLOADING), "InProgress", "Current"),
        (view(READY), "Current", "Current"),
        (view(node("a", Phase.FAILED, reason="InsufficientStorage")), "Failed", "Failed"),
        (view(node("a", Phase.FAILED, reason="InsufficientStorage"), DOWNLOADING), "InProgress", "InProgress"),
        (view(resolution=None, failure=Obstacle("SourceNotFound", "no", retryable=False)), "Failed", "Failed"),
        (view(resolution=None, failure=Obstacle("Unreachable", "no", retryable=True)), "InProgress", "InProgress"),
        (view(resolution=None, invalid="no URI"), "Failed", "Failed"),
        (view(resolution=None, refused="not allowed"), "Failed", "Failed"),
        *((view(node("a", Phase.FAILED, reason=word)), "InProgress", "InProgress") for word in TRANSIENT),
    ],
)
def test_kstatus_of_a_model_on_nodes_follows_its_nodes(seen: ModelView, cache: Status, base_model: Status) -> None:
    assert (of_cache(seen), of_base_model(seen)) == (cache, base_model)


def test_an_arriving_revision_is_in_progress_and_a_stuck_one_has_failed() -> None:
    serving = replace(READY, serving=READY.status)
    coming = replace(node("a", Phase.DOWNLOADING), serving=READY.status)
    stuck = replace(node("a", Phase.FAILED, reason="InsufficientStorage"), serving=READY.status)
    found = [of_base_model(view(one, serving="r1")) for one in (coming, stuck)]
    assert found == ["InProgress", "Failed"]
    assert of_base_model(view(serving, serving="r2")) == "Current"


def test_a_disabled_model_is_neither_reconciling_nor_stalled() -> None:
    status = cache_status(off := view(disabled=True), report(off), ClusterModelCacheStatus(), STAMP)
    assert not {c.type for c in status.conditions} & set(ABNORMAL)


def of_claim(seen: ClaimView) -> Status:
    return kstatus(shown(claim_status(seen, reported(decide_claim(seen, NOW)), STAMP), seen.generation))


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        (on_claim(), "InProgress"),
        (on_claim(job=job(), pods=(IMAGE,)), "InProgress"),
        (after(on_claim(job=job(LATE))), "Failed"),
        (replace(after(on_claim(job=job(LATE))), job=job()), "Failed"),
        (on_claim(job_refused="403"), "Failed"),
        (on_claim(refused="403"), "Failed"),
        (on_claim(claim=None), "Failed"),
        (on_claim(claim=claim("Lost")), "Failed"),
        (on_claim(claim=claim("Pending")), "InProgress"),
        (on_claim(claim=claim("Pending"), waits_for_consumer=True), "InProgress"),
        (read(on_claim()), "Current"),
    ],
)
def test_kstatus_of_a_model_on_a_claim_follows_the_claim_and_its_job(seen: ClaimView, status: Status) -> None:
    assert of_claim(seen) == status


SERVING: Json = {"conditions": ["Available=True"], "ready_replicas": 2, "replicas": 2, "updated_replicas": 2}


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        (service(MISSING), "Failed"),
        (service(WAITING), "InProgress"),
        (service(), "InProgress"),
        (service(deployment=deployment(wanted=2, **SERVING), replicas={"min": 2}), "Current"),
        (service(deployment=deployment(wanted=2, **SERVING | {"updated_replicas": 1}), replicas={"min": 2}),
         "InProgress"),
        (service(deployment=deployment(conditions=["Available=False", "Progressing=False"])), "Failed"),
    ],
)  # fmt: skip
def test_kstatus_of_a_service_follows_its_model_and_deployment(seen: ServiceView, status: Status) -> None:
    assert kstatus(shown(status_of(seen, {}, STAMP))) == status


@pytest.mark.parametrize("members", [(), (GroupMember("a", 1, ("h",)),)])
def test_a_group_is_current_as_soon_as_it_is_observed(members: tuple[GroupMember, ...]) -> None:
    spec = ModelCacheNodeGroupSpec(storage_limit="1Gi")
    group = ModelCacheNodeGroup(metadata=Meta(name="g", generation=3), spec=spec)
    assert kstatus(shown(decide_status(group, members, {}, STAMP))) == "Current"


def test_a_model_being_deleted_or_not_yet_observed_is_not_current() -> None:
    ready = shown(cache_status(view(READY), report(view(READY)), ClusterModelCacheStatus(), STAMP))
    assert kstatus(ready) == "Current"
    assert kstatus(ready | {"metadata": {"generation": 4}}) == "InProgress"
    assert kstatus(ready | {"metadata": {"generation": 3, "deletionTimestamp": STAMP}}) == "Terminating"


def test_conditions_that_no_longer_hold_are_removed_and_foreign_ones_are_kept() -> None:
    before = [
        Condition(type=kind, status="True", reason="R", message="", last_transition_time="t") for kind in
        ("Reconciling", "Stalled", "Drifted", "Theirs")
    ]  # fmt: skip
    found = {c.type: c for c in with_conditions(before, [ConditionUpdate("Ready", "True", "R", "m")], STAMP, 7)}
    assert found.keys() == {"Ready", "Drifted", "Theirs"}
    assert found["Drifted"].observed_generation == 7, "it applies to the last observed generation"
    assert found["Theirs"] == before[-1]


NODES = st.builds(
    node,
    st.sampled_from("abc"),
    st.sampled_from(["", *Phase]),
    ready=st.booleans(),
    reason=st.sampled_from(["", "InsufficientStorage", "Evicted", *TRANSIENT]),
)
VIEWS = st.builds(
    lambda nodes, **fields: view(*nodes, **fields),
    st.lists(NODES, max_size=3, unique_by=lambda n: n.name),
    resolution=st.sampled_from([None, R2]),
    serving=st.sampled_from(["", "r1", "r2"]),
    disabled=st.booleans(),
    failure=st.sampled_from([None, Obstacle("AuthDenied", "m", retryable=False)]),
)


@given(VIEWS)
def test_conditions_agree_with_each_other_and_with_what_was_observed(seen: ModelView) -> None:
    for status in (
        base_model_status(seen, report(seen), BaseModelStatus(), STAMP),
        cache_status(seen, report(seen), ClusterModelCacheStatus(), STAMP),
    ):
        kinds = [c.type for c in status.conditions]
        assert len(kinds) == len(set(kinds))
        assert len(set(kinds) & set(ABNORMAL)) <= 1
        assert {c.observed_generation for c in status.conditions} == {status.observed_generation}
        ready = next(c for c in status.conditions if c.type == "Ready")
        assert ready.status == "True" or set(kinds) & set(ABNORMAL) or ready.reason == "Disabled"


def test_a_resolution_is_recorded_with_the_last_observed_generation() -> None:
    before = ClusterModelCacheStatus(observed_generation=2, refreshed="1")
    status = recorded_status(RecordResolution(R2, 1, "2"), before, STAMP, 3)
    assert {c.observed_generation for c in status.conditions} == {2}
