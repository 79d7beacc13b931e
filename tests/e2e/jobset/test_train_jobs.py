"""The JobSet of a TrainJob of Kubeflow's trainer (v2), with the real JobSet controller, without the trainer."""

from rig.larder.site import Site
from shared.json_object import Json
from tests.builders.replica_claims import GATE, definition, pod_template, template
from tests.e2e.jobset.claims import NAMESPACE, claims_of

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
API_VERSION, KIND = "trainer.kubeflow.org/v1alpha1", "TrainJob"
TRAIN_JOBS = f"/apis/{API_VERSION}/namespaces/default/trainjobs"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"


def jobset_of(train_job: Json) -> Json:
    """Return the JobSet that the trainer creates: with the same name, and the pods in the replicated job `node`."""
    meta = train_job["metadata"]
    job = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 0}
    node = {"name": "node", "replicas": 1, "template": {"spec": job | {"template": pod_template([template()], "data")}}}
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": meta["name"], "uid": meta["uid"]}
    references = [owner | {"controller": True, "blockOwnerDeletion": True}]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": meta["name"], "ownerReferences": references},
        "spec": {"replicatedJobs": [node]},
    }


def released(site: Site, name: str, *, other_than: frozenset[str] = frozenset()) -> frozenset[str]:
    """Wait until two pods of a JobSet are released, and return their uids."""
    found: list[Json] = []

    def are_released() -> bool:
        chosen = f"labelSelector=jobset.sigs.k8s.io/jobset-name={name}"
        pods = site.api.get(f"{NAMESPACE}/pods?{chosen}")["items"]
        found[:] = [pod for pod in pods if pod["metadata"]["uid"] not in other_than]
        gates = [gate["name"] for pod in found for gate in pod["spec"].get("schedulingGates", [])]
        return len(found) == 2 and GATE not in gates

    site.until(are_released, f"the pods of {name}")
    return frozenset(pod["metadata"]["uid"] for pod in found)


def test_the_train_job_owns_the_claims_and_they_survive_its_jobset(site: Site) -> None:
    site.api.ensure(DEFINITIONS, definition(API_VERSION, KIND))
    site.until(lambda: site.api.answers(TRAIN_JOBS), "the kind to be served")
    name = site.name("train")
    made = site.api.create(TRAIN_JOBS, {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}})
    site.api.create(JOBSETS, jobset_of(made))
    first = released(site, name)
    before = claims_of(site, name)
    assert set(before) == {f"data-{name}-node-0-{index}" for index in (0, 1)}
    for claim in before.values():
        (owner,) = claim["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == (KIND, made["metadata"]["uid"])
    site.api.delete(f"{JOBSETS}/{name}?propagationPolicy=Foreground")
    site.until(lambda: not site.api.answers(f"{JOBSETS}/{name}"), "the JobSet to be gone")
    site.api.create(JOBSETS, jobset_of(made))
    released(site, name, other_than=first)
    assert {c: meta["uid"] for c, meta in claims_of(site, name).items()} == {c: m["uid"] for c, m in before.items()}
    site.api.delete(f"{TRAIN_JOBS}/{name}?propagationPolicy=Foreground")
    site.until(lambda: not claims_of(site, name), "the claims to be collected with the TrainJob")
