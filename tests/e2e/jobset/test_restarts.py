"""A JobSet whose Jobs have claims for each pod, and keep them when all Jobs are created again."""

import pytest

from rig.larder.site import Site
from shared.json_object import Json
from tests.builders.replica_claims import GATE, pod_template, template
from tests.e2e.jobset.claims import NAMESPACE, claims_of

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def jobset(name: str) -> Json:
    pods = pod_template([template("data")], "data")
    job = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 0, "template": pods}
    worker = {"name": "worker", "replicas": 2, "template": {"spec": job}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"failurePolicy": {"maxRestarts": 2}, "replicatedJobs": [worker]},
    }


def jobs_of(site: Site, name: str) -> set[str]:
    """Return the uids of a JobSet's Jobs; those of other tests may still be there."""
    chosen = f"labelSelector=jobset.sigs.k8s.io/jobset-name={name}"
    return {job["metadata"]["uid"] for job in site.api.get(f"{JOBS}?{chosen}")["items"]}


def pods_of(site: Site, name: str) -> list[Json]:
    chosen = f"labelSelector=jobset.sigs.k8s.io/jobset-name={name}"
    found = site.api.get(f"{NAMESPACE}/pods?{chosen}")["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def wait_released(site: Site, name: str, attempt: str) -> list[Json]:
    """Wait until the pods of an attempt are released, and return them."""
    found: list[Json] = []

    def released() -> bool:
        found[:] = [
            pod
            for pod in pods_of(site, name)
            if pod["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] == attempt
        ]
        return len(found) == 4 and not any(
            gate["name"] == GATE for pod in found for gate in pod["spec"].get("schedulingGates", [])
        )

    site.until(released, f"the pods of attempt {attempt}")
    return found


def test_the_jobset_owns_the_claims_and_they_survive_a_restart_of_all_jobs(site: Site) -> None:
    name = site.name("train")
    made = site.api.create(JOBSETS, jobset(name))
    first = wait_released(site, name, "0")
    before = claims_of(site, name)
    assert set(before) == {f"data-{name}-worker-{job}-{index}" for job in (0, 1) for index in (0, 1)}
    for claim in before.values():
        (owner,) = claim["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("JobSet", made["metadata"]["uid"])
    jobs = jobs_of(site, name)
    failed = first[0]["metadata"]["name"]
    site.api.patch(f"{NAMESPACE}/pods/{failed}/status", {"status": {"phase": "Failed"}})
    second = wait_released(site, name, "1")
    assert not jobs & jobs_of(site, name)
    after = claims_of(site, name)
    assert {name: claim["uid"] for name, claim in after.items()} == {n: c["uid"] for n, c in before.items()}
    mounted = {v["persistentVolumeClaim"]["claimName"] for pod in second for v in pod["spec"]["volumes"][:1]}
    assert mounted == set(before)
    site.api.delete(f"{JOBSETS}/{name}?propagationPolicy=Foreground")
    site.until(lambda: not claims_of(site, name), "the claims to be collected with the JobSet")


@pytest.mark.parametrize("kind", ["none", "unindexed"])
def test_jobs_of_a_jobset_are_refused_with_a_remedy_only_if_they_are_not_indexed(site: Site, kind: str) -> None:
    name = site.name("train")
    body = jobset(name)
    spec = body["spec"]["replicatedJobs"][0]["template"]["spec"]
    spec["completionMode"] = "NonIndexed"
    if kind == "none":
        del spec["completionMode"]
    site.api.create(JOBSETS, body)
    if kind == "none":  # JobSet's own default is Indexed
        wait_released(site, name, "0")
        return
    events = f"{NAMESPACE}/events?fieldSelector=involvedObject.name={name}"
    site.until(
        lambda: any("set completionMode: Indexed" in e["message"] for e in site.api.get(events)["items"]),
        "the JobSet to report why it has no Jobs",
    )
