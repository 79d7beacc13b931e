"""Which models are reconciled when a claim or a Job's pod changes."""

import pytest

from controller.claims.controller import model_of_job_pod, models_on
from controller.claims.job import MODEL_ANNOTATION
from controller.jobs.observed_jobs import JobPod
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.api.base_model import BaseModel, BaseModelSpec, Storage
from shared.kube.objects import Key, Meta
from tests.builders.claims import claim
from tests.builders.cluster import cluster_model, fresh_cluster, meta

CLUSTER = ModelKey("ClusterBaseModel", "", "shared")
TEAM = ModelKey("BaseModel", "team", "own")


@pytest.fixture
def cluster() -> ClusterState:
    found = fresh_cluster()
    found.cluster_base_models.upsert(cluster_model("shared", {}, uri="pvc://team/data/models/a"))
    found.cluster_base_models.upsert(cluster_model("else", {}, uri="pvc://other/data/models/a"))
    found.cluster_base_models.upsert(cluster_model("hub", {}))
    storage = Storage(storage_uri="pvc://data/models/b")
    found.base_models.upsert(BaseModel(metadata=meta("own", namespace="team"), spec=BaseModelSpec(storage=storage)))
    return found


def test_a_claim_wakes_the_models_on_it(cluster: ClusterState) -> None:
    woken: list[ModelKey] = []
    cluster.volumes.claim_changed.listen(lambda changed: woken.extend(models_on(cluster, changed.key)))
    cluster.volumes.claims.upsert(claim())
    cluster.volumes.claims.remove(Key("team", "data"))
    cluster.volumes.claims.upsert(claim().__class__(metadata=Meta(name="unused", namespace="team")))
    assert sorted(woken, key=str) == sorted([CLUSTER, TEAM] * 2, key=str)


@pytest.mark.parametrize(
    ("namespace", "text", "woken"),
    [
        ("team", "BaseModel/team/own", [TEAM]),
        ("team", "ClusterBaseModel//shared", [CLUSTER]),
        ("other", "BaseModel/team/own", []),
        ("other", "ClusterBaseModel//shared", []),
        ("team", "ClusterBaseModel//hub", []),
        ("team", "ClusterBaseModel//gone", []),
        ("team", "rubbish", []),
    ],
)
def test_the_pod_of_a_job_wakes_only_a_model_on_a_claim_in_its_namespace(
    namespace: str, text: str, woken: list[ModelKey], cluster: ClusterState
) -> None:
    pod = JobPod(metadata=Meta(name="p", namespace=namespace, annotations={MODEL_ANNOTATION: text}))
    assert list(model_of_job_pod(cluster, pod)) == woken
