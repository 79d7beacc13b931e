"""Pods of indexed Jobs get their own claims before they are scheduled, and their replacements reuse them."""

import pytest

from controller.admission.pods.replica_claims import PLACEHOLDER
from rig.errors import CallRefused
from shared.json_object import Json
from tests.builders.replica_claims import GATE, job, pod_template, template
from tests.integration.replica_claims.namespaces import Tenant, gates

YAML = """
- metadata: {name: data, labels: {team: a}}
  spec:
    accessModes: [ReadWriteOnce]
    resources: {requests: {storage: 1Gi}}
"""


def claim_names(pod: Json) -> list[str]:
    volumes = pod["spec"]["volumes"]
    return [v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v]


def fail(tenant: Tenant, pod: Json) -> None:
    """Mark a pod as failed, as kubelet does when its container fails."""
    path = tenant.path("pods", pod["metadata"]["name"])
    tenant.site.api.patch(f"{path}/status", {"status": {"phase": "Failed"}})


def test_each_pod_gets_its_claims_and_the_job_owns_them(tenant: Tenant) -> None:
    made = tenant.create("jobs", job("train", pod_template([template("data"), template("logs")], "data", "logs"), 3))
    pods = tenant.released(3)
    wanted = {f"{volume}-train-{index}" for volume in ("data", "logs") for index in range(3)}
    claims = tenant.claims()
    assert set(claims) == wanted
    assert {name for pod in pods for name in claim_names(pod)} == wanted
    assert claims["data-train-0"]["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "train",
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    tenant.site.api.delete(f"{tenant.path('jobs', 'train')}?propagationPolicy=Foreground")
    tenant.site.until(lambda: not tenant.claims(), "the claims to be collected with the Job")


def test_the_annotation_may_be_yaml_and_a_volume_of_the_template_takes_precedence(tenant: Tenant) -> None:
    pods = pod_template(YAML + "- metadata: {name: own}\n" + YAML.split("\n", 2)[2], "data", "own")
    pods["spec"]["volumes"] = [{"name": "own", "emptyDir": {}}]
    tenant.create("jobs", job("train", pods))
    (pod,) = tenant.released(1)
    assert claim_names(pod) == ["data-train-0"]
    assert next(v for v in pod["spec"]["volumes"] if v["name"] == "own")["emptyDir"] == {}
    assert tenant.claims()["data-train-0"]["metadata"]["labels"]["team"] == "a"


def test_a_pod_that_replaces_a_failed_one_gets_the_same_claim(tenant: Tenant) -> None:
    tenant.create("jobs", job("train", pod_template([template()], "data"), backoffLimit=3))
    (first,) = tenant.released(1)
    uid = tenant.claims()["data-train-0"]["metadata"]["uid"]
    fail(tenant, first)
    tenant.site.until(lambda: len(tenant.items("pods")) == 2, "another pod")
    tenant.released(2)
    second = next(p for p in tenant.items("pods") if p["metadata"]["uid"] != first["metadata"]["uid"])
    assert claim_names(second) == claim_names(first)
    assert tenant.claims()["data-train-0"]["metadata"]["uid"] == uid


def test_foreign_gates_are_kept_and_claims_wait_for_admission_by_kueue(tenant: Tenant) -> None:
    pods = pod_template([template()], "data")
    pods["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}, {"name": "example.org/held"}]
    tenant.create("jobs", job("train", pods))
    other = pod_template([template()], "data")
    tenant.create("jobs", job("beside", other))
    tenant.site.until(lambda: "data-beside-0" in tenant.claims(), "the claim of the Job beside it")
    pods_of_train: list[Json] = []

    def is_there() -> bool:
        pods_of_train[:] = [p for p in tenant.items("pods") if p["metadata"]["labels"]["job-name"] == "train"]
        return bool(pods_of_train)

    tenant.site.until(is_there, "the pod of the other Job")
    (pod,) = pods_of_train
    assert set(tenant.claims()) == {"data-beside-0"}
    kept = {"spec": {"schedulingGates": [{"name": "example.org/held"}, {"name": GATE}]}}
    tenant.site.api.patch(tenant.path("pods", pod["metadata"]["name"]), kept)
    tenant.site.until(lambda: not tenant.gated(), "the gate to be gone")
    assert gates(tenant.site.api.get(tenant.path("pods", pod["metadata"]["name"]))) == ["example.org/held"]


@pytest.mark.parametrize(
    ("pods", "spec", "why"),
    [
        (pod_template([template()], "data"), {"completionMode": "NonIndexed"}, "set completionMode: Indexed"),
        (pod_template("{", "data"), {}, "neither JSON nor YAML"),
        (pod_template("a: &a [*a]"), {}, "anchors and aliases"),
        (pod_template("[" * 5000), {}, "nested more than"),
        (pod_template("- " * 3000), {}, "nested more than"),
        (pod_template("x" * 40_000), {}, "at most 32768 are allowed"),
        (pod_template("[]"), {}, "the list is empty"),
        (pod_template([template(volumeName="theirs")]), {}, "spec.volumeName: may not be set"),
        (
            pod_template([template() | {"metadata": {"name": "a", "finalizers": ["x"]}}]),
            {},
            "finalizers: may not be set",
        ),
        (pod_template([template("a"), template("a")]), {}, "two templates are named 'a'"),
        (pod_template("- metadata: {name: a}\n  spec: {accessModes: [2026-01-01]}"), {}, "put quotes around it"),
        (pod_template("!!python/object/apply:os.system ['id']"), {}, "tags"),
    ],
    ids=str,
)
def test_a_job_that_cannot_have_claims_is_refused_at_once(tenant: Tenant, pods: Json, spec: Json, why: str) -> None:
    with pytest.raises(CallRefused, match=why.replace("(", r"\(")):
        tenant.create("jobs", job("train", pods, **spec))


def test_pods_without_index_or_workload_are_refused_with_the_reason(tenant: Tenant) -> None:
    pods = pod_template([template()])
    with pytest.raises(CallRefused, match="no workload controls the pod"):
        tenant.create("pods", {"metadata": pods["metadata"] | {"name": "alone"}, "spec": pods["spec"]})
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    owned = pods["metadata"] | {"name": "of-a-job", "ownerReferences": [reference]}
    with pytest.raises(CallRefused, match="the pods of Job j have no index"):
        tenant.create("pods", {"metadata": owned, "spec": pods["spec"]})
    node = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": True}
    owned = pods["metadata"] | {"name": "n-0", "ownerReferences": [node]}
    with pytest.raises(CallRefused, match="creates claims only for Job, StatefulSet"):
        tenant.create("pods", {"metadata": owned, "spec": pods["spec"]})
    bound = pods["metadata"] | {"name": "j-0", "ownerReferences": [reference]}
    bound["annotations"] = bound["annotations"] | {"batch.kubernetes.io/job-completion-index": "0"}
    with pytest.raises(CallRefused, match="nodeName already binds the pod"):
        tenant.create("pods", {"metadata": bound, "spec": pods["spec"] | {"nodeName": "a"}})
    long = dict(bound, ownerReferences=[reference | {"name": "j" * 250}])
    with pytest.raises(CallRefused, match=r"at most 253 are allowed; shorten the name"):
        tenant.create("pods", {"metadata": long, "spec": pods["spec"]})


def test_a_stateful_set_owns_our_claims_and_keeps_those_of_its_own_templates(tenant: Tenant) -> None:
    pods = pod_template([template("data"), template("own")], "data", "own")
    pods["metadata"]["labels"] = {"app": "db"}
    pods["spec"]["restartPolicy"] = "Always"
    pods["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": PLACEHOLDER}}]
    spec = {"replicas": 1, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": pods}
    spec["volumeClaimTemplates"] = [template("own")]
    tenant.create("statefulsets", {"metadata": {"name": "db"}, "spec": spec})
    tenant.released(1)
    owners = {name: c["metadata"].get("ownerReferences", [{}])[0].get("kind") for name, c in tenant.claims().items()}
    assert owners == {"data-db-0": "StatefulSet", "own-db-0": None}


def test_the_second_of_two_workloads_with_one_name_waits_until_the_first_is_gone(tenant: Tenant) -> None:
    tenant.create("jobs", job("x-1", pod_template([template("data")], "data")))
    tenant.released(1)
    second = tenant.create("jobs", job("1", pod_template([template("data-x")], "data-x")))
    assert "data-x-1-0 exists and belongs to Job x-1" in tenant.wait_reason("NameConflict")
    assert len(tenant.gated()) == 1
    tenant.site.api.delete(f"{tenant.path('jobs', 'x-1')}?propagationPolicy=Foreground")
    tenant.released(1)
    (owner,) = tenant.claims()["data-x-1-0"]["metadata"]["ownerReferences"]
    assert owner["uid"] == second["metadata"]["uid"]


def orphan(tenant: Tenant, pods: Json) -> Json:
    """Return a pod whose Job was deleted without it."""
    for attempt in range(10):  # the garbage collector takes a pod that it has not seen before its Job goes
        name = f"train-{attempt}"
        tenant.create("jobs", job(name, pods))
        tenant.site.until(lambda: len(tenant.gated()) == 1, "the pod")
        tenant.site.api.delete(f"{tenant.path('jobs', name)}?propagationPolicy=Orphan")
        tenant.site.until(lambda: not tenant.names("jobs"), "the Job to be gone")
        if left := [pod for pod in tenant.gated() if not pod["metadata"].get("ownerReferences")]:
            return left[0]
        tenant.site.until(lambda: not tenant.gated(), "the pod to be collected")
    raise AssertionError("the garbage collector took every pod")


def test_a_queued_pod_whose_workload_is_deleted_gets_no_claims_and_reports_why(tenant: Tenant) -> None:
    pods = pod_template([template()], "data")
    pods["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    pod = orphan(tenant, pods)
    admitted = {"spec": {"schedulingGates": [{"name": GATE}]}}
    tenant.site.api.patch(tenant.path("pods", pod["metadata"]["name"]), admitted)
    assert "nothing can own its claims" in tenant.wait_reason("WorkloadGone")
    assert tenant.gated()
    assert not tenant.claims()
