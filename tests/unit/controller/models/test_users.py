"""A model that is being deleted is kept while it has users, and reports them."""

from dataclasses import replace
from datetime import timedelta

from controller.admission.catalog.memory import MemoryCatalog
from controller.manager.actions import RemoveFinalizer, Requeue
from controller.models.decide import WriteStatus, decide
from controller.models.users import known_users, live_users
from controller.placement.demand import Demand
from controller.state.cluster_state import ClusterState
from shared.names import USER_LABEL, uses_label
from tests.builders.cluster import base_model, cache, cluster_model, fresh_cluster, pod
from tests.builders.models import NOW, STAMP, view
from tests.builders.services import service

MOUNTED = [("m", "r1")]
LABELS = {USER_LABEL: "true", uses_label("m"): "true"}


def add_model_being_deleted(cluster: ClusterState) -> Demand:
    cluster.cluster_base_models.upsert(cluster_model("m", {}, deletion_timestamp="t"))
    (demand,) = cluster.models.demands.values()
    return demand


def test_users_delay_a_deletion_beyond_the_deadline_for_nodes() -> None:
    held = replace(view(deleted_at=STAMP), users=("InferenceService team/svc", "pod team/p"))
    for now in (NOW, NOW + timedelta(days=1)):
        first, again = decide(held, now, 600)
        assert isinstance(first, WriteStatus)
        assert (first.report.overall, first.report.reason) == ("Deleting", "InUse")
        assert "InferenceService team/svc, pod team/p; delete them" in first.report.message
        assert isinstance(again, Requeue)
    assert decide(replace(held, users=()), NOW, 600) == [RemoveFinalizer()]


def test_known_users_are_services_and_running_pods_with_the_model_mounted() -> None:
    cluster = fresh_cluster()
    demand = add_model_being_deleted(cluster)
    assert known_users(cluster, demand) == ()
    cluster.inference_services.upsert(service())
    cluster.model_pods.upsert(pod("running", "a", MOUNTED, labels=LABELS))
    cluster.model_pods.upsert(pod("unplaced", "", MOUNTED, labels=LABELS, phase="Pending"))
    cluster.model_pods.upsert(pod("ended", "a", MOUNTED, labels=LABELS, phase="Succeeded"))
    cluster.model_pods.upsert(pod("of-another", "a", labels={USER_LABEL: "true"}))
    cluster.model_pods.upsert(pod("labelled-by-hand", "a", labels=LABELS))
    cluster.model_pods.upsert(pod("has-another", "a", [("other", "r1"), ("mm", "r1")], labels=LABELS))
    assert known_users(cluster, demand) == ("InferenceService team/svc", "pod ns/running", "pod ns/unplaced")


def test_pods_of_another_namespace_do_not_hold_a_namespace_s_model() -> None:
    cluster = fresh_cluster()
    cluster.base_models.upsert(base_model("team", "m"))
    (demand,) = cluster.models.demands.values()
    cluster.model_pods.upsert(pod("p", "a", [("team_m", "r1")], labels={uses_label("team_m"): "true"}))
    assert known_users(cluster, demand) == ()


def test_users_of_a_model_on_a_claim_mount_that_claim() -> None:
    cluster = fresh_cluster()
    cluster.cluster_base_models.upsert(cluster_model("m", {}, uri="pvc://ns/weights/dir"))
    (demand,) = cluster.models.demands.values()
    cluster.model_pods.upsert(pod("p", "a", (), ["weights"], labels=LABELS))
    cluster.model_pods.upsert(pod("other-claim", "a", (), ["scratch"], labels=LABELS))
    cluster.model_pods.upsert(pod("elsewhere", "a", (), ["weights"], labels=LABELS, namespace="evil"))
    assert known_users(cluster, demand) == ("pod ns/p",)


async def test_live_users_include_pods_and_services_from_the_api_server() -> None:
    cluster = fresh_cluster()
    demand = add_model_being_deleted(cluster)
    catalog = MemoryCatalog(users={"m": ["a/p"]}, services={"ClusterBaseModel//m": ["b/s"]})
    assert await live_users(catalog, cluster, demand) == ("InferenceService b/s", "pod a/p")


async def test_pods_of_an_older_model_with_the_same_id_do_not_hold_the_younger() -> None:
    cluster = fresh_cluster()
    cluster.cluster_base_models.upsert(cluster_model("m", {}, creation_timestamp="2025-01-01T00:00:00Z"))
    younger = cache("m", "g", uri="s3://other/files", uid="younger", deletion_timestamp="t")
    cluster.cluster_model_caches.upsert(younger)
    older, shadowed = cluster.models.demands.values()
    cluster.model_pods.upsert(pod("p", "a", MOUNTED, labels=LABELS))
    catalog = MemoryCatalog(users={"m": ["ns/p"]})
    assert known_users(cluster, shadowed) == await live_users(catalog, cluster, shadowed) == ()
    assert known_users(cluster, older) == await live_users(catalog, cluster, older) == ("pod ns/p",)


async def test_pods_hold_their_model_although_a_younger_one_takes_over_its_id() -> None:
    cluster = fresh_cluster()
    demand = add_model_being_deleted(cluster)
    cluster.cluster_model_caches.upsert(
        cache("m", "g", uri="s3://other/files", uid="younger", creation_timestamp="2027-01-01T00:00:00Z")
    )
    cluster.model_pods.upsert(pod("p", "a", MOUNTED, labels=LABELS))
    assert known_users(cluster, demand) == ("pod ns/p",)
