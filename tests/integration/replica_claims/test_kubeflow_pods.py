"""Pods as Kubeflow's training operator (v1) creates them for a PyTorchJob, without the operator itself."""

from shared.json_object import Json
from tests.builders.replica_claims import definition, pod_template, template
from tests.integration.replica_claims.namespaces import Tenant

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
API_VERSION, KIND = "kubeflow.org/v1", "PyTorchJob"


def replica(owner: Json, role: str, index: int) -> Json:
    """Return a pod with the operator's name, labels and owner."""
    job = owner["metadata"]["name"]
    labels = {
        "training.kubeflow.org/job-name": job,
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/replica-type": role,
        "training.kubeflow.org/replica-index": str(index),
    }
    if role == "master":
        labels["training.kubeflow.org/job-role"] = "master"
    reference = {"apiVersion": API_VERSION, "kind": KIND, "name": job, "uid": owner["metadata"]["uid"]}
    pods = pod_template([template()], "data")
    references = [reference | {"controller": True, "blockOwnerDeletion": True}]
    metadata = {"name": f"{job}-{role}-{index}", "labels": labels, "ownerReferences": references}
    return {"metadata": pods["metadata"] | metadata, "spec": pods["spec"]}


def test_pods_of_a_pytorch_job_get_claims_that_it_owns_and_their_successors_get_them_back(tenant: Tenant) -> None:
    api, jobs = tenant.site.api, f"/apis/{API_VERSION}/namespaces/{tenant.namespace}/pytorchjobs"
    api.ensure(DEFINITIONS, definition(API_VERSION, KIND))
    tenant.site.until(lambda: api.answers(jobs), "the kind to be served")
    owner = api.create(jobs, {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "train"}})
    for role, index in (("master", 0), ("worker", 0), ("worker", 1)):
        tenant.create("pods", replica(owner, role, index))
    tenant.released(3)
    before = tenant.claims()
    assert before.keys() == {"data-train-master-0", "data-train-worker-0", "data-train-worker-1"}
    for claim in before.values():
        (reference,) = claim["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["uid"]) == (KIND, owner["metadata"]["uid"])
    api.delete(tenant.path("pods", "train-worker-1"), grace_s=0)
    tenant.create("pods", replica(owner, "worker", 1))
    tenant.released(3)
    after = tenant.claims()
    assert {name: c["metadata"]["uid"] for name, c in after.items()} == {
        name: c["metadata"]["uid"] for name, c in before.items()
    }
    api.delete(f"{jobs}/train?propagationPolicy=Foreground")
    tenant.site.until(lambda: not tenant.claims(), "the claims to be collected with the job")
