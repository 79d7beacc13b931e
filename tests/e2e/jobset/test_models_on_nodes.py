"""The pods of a JobSet get the model that its template names, on nodes of this test."""

from collections.abc import Iterator

import pytest

from rig.larder.site import Site
from shared.json_object import Json
from shared.names import ready_label

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
PODS = "/api/v1/namespaces/default/pods"
REPLICAS, PODS_OF_A_JOB = 2, 2


def jobset(name: str, model: str) -> Json:
    """Return a JobSet of indexed Jobs whose pods read a model."""
    template = {
        "metadata": {"annotations": {"larder.dev/model": model}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "trainer", "image": "trainer:none"}]},
    }
    counts = {"completionMode": "Indexed", "completions": PODS_OF_A_JOB, "parallelism": PODS_OF_A_JOB}
    job = {"name": "worker", "replicas": REPLICAS, "template": {"spec": counts | {"template": template}}}
    kind = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    return kind | {"metadata": {"name": name}, "spec": {"replicatedJobs": [job]}}


@pytest.fixture
def slot(site: Site) -> Iterator[dict[str, str]]:
    """The label of one of two nodes."""
    labels = {"slot": site.name()}
    site.cluster.add_node("with-model", labels)
    site.cluster.add_node("without-model")
    yield labels
    for node in ("with-model", "without-model"):
        site.cluster.agents.pop(node).remove()
        site.cluster.nodes.remove(node)


def test_every_pod_of_a_jobset_runs_on_a_node_with_the_model(site: Site, slot: dict[str, str]) -> None:
    model = site.base_model(nodeSelector=slot)
    site.wait_ready("ClusterBaseModel", model)
    name = site.name("train")
    site.api.create(JOBSETS, jobset(name, model))

    def pods() -> list[Json]:
        found: list[Json] = site.api.get(f"{PODS}?labelSelector=jobset.sigs.k8s.io/jobset-name={name}")["items"]
        return found

    def run_where_it_is() -> bool:
        return [p["spec"].get("nodeName") for p in pods()] == ["with-model"] * (REPLICAS * PODS_OF_A_JOB)

    site.until(run_where_it_is, f"the pods of {name} on the node with {model}")
    assert ready_label(model) in site.labels("with-model")
    for pod in pods():
        mounts = {m["name"] for m in pod["spec"]["containers"][0]["volumeMounts"]}
        assert any(v["name"] in mounts and "persistentVolumeClaim" in v for v in pod["spec"]["volumes"])
        assert pod["metadata"]["annotations"]["larder.dev/models"].startswith(f"{model}@")
    site.api.delete(f"{JOBSETS}/{name}?propagationPolicy=Foreground")
    site.until(lambda: not pods(), "the pods to go with the JobSet")
