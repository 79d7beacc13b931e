"""Claims of pods when something goes wrong: quotas, kills, deletions, forged records."""

import subprocess
import sys

from controller.replica_claims.gate import CLAIMS_LABEL, GIVEN_ANNOTATION
from shared.json_object import Json
from tests.builders.replica_claims import GATE, job, pod_template, template
from tests.integration.replica_claims.namespaces import Tenant, gates

KUEUE = "kueue.x-k8s.io/admission"


def uids(tenant: Tenant) -> dict[str, str]:
    return {name: claim["metadata"]["uid"] for name, claim in tenant.claims().items()}


def held(*names: str) -> Json:
    """Return a pod template that gets no claims until the test removes Kueue's gate."""
    pods = pod_template([template(name) for name in names], *names)
    pods["spec"]["schedulingGates"] = [{"name": KUEUE}]
    return pods


def remove_kueue_gate(tenant: Tenant, pod: Json) -> None:
    """Remove the gate of Kueue."""
    kept = [{"name": gate} for gate in gates(pod) if gate != KUEUE]
    tenant.site.api.patch(tenant.path("pods", pod["metadata"]["name"]), {"spec": {"schedulingGates": kept}})


def wait_gated(tenant: Tenant, owner: str) -> Json:
    """Wait for the one pod of a Job behind our gate, and return it."""
    found: list[Json] = []

    def is_there() -> bool:
        found[:] = [pod for pod in tenant.gated() if pod["metadata"]["labels"]["job-name"] == owner]
        return len(found) == 1

    tenant.site.until(is_there, f"the pod of {owner}")
    return found[0]


def test_500_pods_get_their_claims_although_controller_and_api_server_are_killed(tenant: Tenant) -> None:
    tenant.create("jobs", job("train", pod_template([template()], "data"), 500))
    tenant.site.until(lambda: len(tenant.claims()) >= 150, "some claims")
    leader = tenant.site.leader()
    leader.process.kill()
    before = uids(tenant)
    assert len(before) < 500
    leader.start()
    tenant.site.until(lambda: len(tenant.claims()) >= 300, "more claims")
    tenant.site.cluster.plane.restart_apiserver()
    pods = tenant.released(500)
    after = uids(tenant)
    assert after.keys() == {f"data-train-{index}" for index in range(500)}
    assert {name: after[name] for name in before} == before
    assert len(pods) == 500


def test_a_workload_deleted_while_its_claims_are_queued_gets_no_more_claims(tenant: Tenant) -> None:
    tenant.create("jobs", job("train", pod_template([template(f"d{n}") for n in range(16)]), 12))
    tenant.site.until(lambda: len(tenant.claims()) >= 3, "some claims")
    tenant.site.api.delete(f"{tenant.path('jobs', 'train')}?propagationPolicy=Foreground")
    tenant.site.until(lambda: not tenant.names("jobs") and not tenant.claims(), "the Job and its claims to be gone")
    tenant.create("jobs", job("later", pod_template([template()], "data")))
    tenant.released(1)
    # One that was under way when the Job went is collected.
    tenant.site.until(lambda: set(tenant.claims()) == {"data-later-0"}, "no claims but that of the later Job")


def test_a_claim_that_is_deleted_manually_is_recreated_with_the_same_owner(tenant: Tenant) -> None:
    tenant.create("jobs", job("train", pod_template([template()], "data")))
    tenant.released(1)
    before = tenant.claims()["data-train-0"]["metadata"]
    tenant.site.api.delete(tenant.path("persistentvolumeclaims", "data-train-0"))
    tenant.site.until(
        lambda: uids(tenant).get("data-train-0") not in (None, before["uid"]), "the claim to be recreated"
    )
    assert tenant.claims()["data-train-0"]["metadata"]["ownerReferences"] == before["ownerReferences"]


def test_an_index_reuses_its_claim_after_scaling_down_and_up(tenant: Tenant) -> None:
    tenant.create("jobs", job("train", pod_template([template()], "data"), 2))
    tenant.released(2)
    before = uids(tenant)
    for count in (1, 2):
        scale = {"spec": {"parallelism": count, "completions": count}}
        tenant.site.api.patch(tenant.path("jobs", "train"), scale)
        tenant.released(count)
    assert uids(tenant) == before


def test_a_namespace_may_be_deleted_while_claims_are_queued(tenant: Tenant) -> None:
    tenant.create("jobs", job("train", pod_template([template(f"d{n}") for n in range(16)]), 12))
    tenant.site.until(lambda: len(tenant.claims()) >= 3, "some claims")
    namespace = f"/api/v1/namespaces/{tenant.namespace}"
    tenant.site.api.delete(namespace)
    tenant.site.until(lambda: not tenant.site.api.answers(namespace), "the namespace to be gone")


def test_a_quota_is_reported_on_the_pod_and_by_larder_why(tenant: Tenant) -> None:
    quotas = tenant.path("resourcequotas")
    tenant.site.api.create(quotas, {"metadata": {"name": "one"}, "spec": {"hard": {"persistentvolumeclaims": "1"}}})
    tenant.site.until(lambda: "hard" in tenant.items("resourcequotas")[0].get("status", {}), "the quota")
    tenant.create("jobs", job("train", pod_template([template()], "data"), 2))
    assert "exceeded quota" in tenant.wait_reason("ClaimRefused")
    tenant.site.until(lambda: len(tenant.gated()) == 1, "the other pod to be released")
    (pod,) = tenant.gated()
    (missing,) = {"data-train-0", "data-train-1"} - set(tenant.claims())
    argv = [sys.executable, "-m", "shared.cli", "why", f"--kubeconfig={tenant.site.cluster.plane.kubeconfig}"]
    argv.append(f"pod/{tenant.namespace}/{pod['metadata']['name']}")
    output = subprocess.run(argv, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own command
    assert f"! claim/{missing}: ClaimRefused" in output
    assert "exceeded quota" in output


def test_a_user_who_empties_the_record_affects_only_that_pod(tenant: Tenant) -> None:
    tenant.create("jobs", job("forged", held("data")))
    tenant.create("jobs", job("beside", held("data")))
    pod = wait_gated(tenant, "forged")
    record = {"metadata": {"annotations": {GIVEN_ANNOTATION: ""}}}
    tenant.site.api.patch(tenant.path("pods", pod["metadata"]["name"]), record)
    remove_kueue_gate(tenant, pod)
    remove_kueue_gate(tenant, wait_gated(tenant, "beside"))
    tenant.released(2)
    assert set(tenant.claims()) == {"data-beside-0"}


def test_a_foreign_claim_added_to_the_record_blocks_only_that_pod(tenant: Tenant) -> None:
    tenant.create("jobs", job("x-0", pod_template([template()], "data")))
    tenant.released(1)
    before = tenant.claims()["data-x-0-0"]["metadata"]
    pods = held("data-x")
    pods["spec"]["volumes"] = [{"name": "data-x", "persistentVolumeClaim": {"claimName": "data-x-0-0"}}]
    tenant.create("jobs", job("0", pods))
    tenant.site.until(lambda: len(tenant.items("pods")) == 2, "its pod")
    (pod,) = [pod for pod in tenant.items("pods") if pod["metadata"]["labels"]["job-name"] == "0"]
    assert GATE not in gates(pod)  # its own volume wins, so there is nothing to wait for
    labels = {"labels": {CLAIMS_LABEL: "true"}, "annotations": {GIVEN_ANNOTATION: "data-x"}}
    tenant.site.api.patch(tenant.path("pods", pod["metadata"]["name"]), {"metadata": labels})
    remove_kueue_gate(tenant, pod)
    assert "data-x-0-0 exists and belongs to Job x-0" in tenant.wait_reason("NameConflict")
    after = tenant.claims()["data-x-0-0"]["metadata"]
    assert (after["uid"], after["ownerReferences"]) == (before["uid"], before["ownerReferences"])
    tenant.create("jobs", job("beside", pod_template([template()], "data")))
    tenant.site.until(lambda: "data-beside-0" in tenant.claims(), "the claim of the Job beside it")
