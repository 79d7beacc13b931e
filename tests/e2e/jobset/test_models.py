"""A JobSet whose pods name a Model (`models.example.com`), together with claims of their own."""

from rig.larder.site import Site
from shared.json_object import Json
from tests.builders.replica_claims import pod_template, template
from tests.integration.system.download_pods import PODS, assert_injected, ready_model

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"


def jobset(name: str, model: str) -> Json:
    pods = pod_template([template("data")], "data", annotations={"models.example.com/inject": model})
    job = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": pods}
    worker = {"name": "worker", "replicas": 2, "template": {"spec": job}}
    kind = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name}}
    return kind | {"spec": {"replicatedJobs": [worker]}}


def test_every_pod_of_a_jobset_gets_the_model_and_its_own_claim(site: Site) -> None:
    model, name = ready_model(site, "Pending"), site.name("set")  # there are no nodes to run it
    site.api.create(JOBSETS, jobset(name, model))
    query = f"{PODS}?labelSelector=jobset.sigs.k8s.io/jobset-name={name}"
    site.until(lambda: len(site.api.get(query)["items"]) == 4, "all pods")
    claims = set[str]()
    for pod in site.api.get(query)["items"]:
        assert_injected(pod, model)
        (own,) = (v["persistentVolumeClaim"] for v in pod["spec"]["volumes"] if v["name"] == "data")
        claims.add(own["claimName"])
    assert claims == {f"data-{name}-worker-{job}-{index}" for job in (0, 1) for index in (0, 1)}
    site.api.delete(f"{JOBSETS}/{name}?propagationPolicy=Foreground")
    site.until(lambda: not site.api.answers(f"{JOBSETS}/{name}"), "the JobSet to be gone")
    site.delete("Model", model)
