"""TrainingJobs on a real control plane, with the real volume controllers and garbage collectors."""

import json
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from rig.binaries import Binaries
from rig.errors import CallRefused
from rig.larder.objects import KINDS
from rig.larder.site import Site
from shared.json_object import Json
from tests.integration.system.conftest import Why
from tests.integration.system.training import (
    CLAIMS,
    CLASS,
    CLASSES,
    JOB_LABEL,
    KIND,
    NAMESPACE,
    PODS,
    SERVICES,
    claim_template,
    condition,
    end,
    event,
    owned,
    role,
    running,
    train,
    volume_for,
    wait_claims,
    wait_phase,
    wait_reason,
)


@pytest.fixture(scope="module", autouse=True)
def _storage(site: Site) -> Iterator[None]:
    """A storage class whose volumes the tests create."""
    site.api.ensure(CLASSES, {"metadata": {"name": CLASS}, "provisioner": "kubernetes.io/no-provisioner"})
    yield
    site.api.delete(f"{CLASSES}/{CLASS}")


def test_a_training_job_creates_claims_and_pods_and_succeeds_with_its_master(site: Site) -> None:
    job = train(site, roles={"Master": role(), "Worker": role(2)})
    names = {f"data-{job}-master-0", f"data-{job}-worker-0", f"data-{job}-worker-1"}
    assert wait_claims(site, job, 3).keys() == names
    pods = running(site, job, 3)
    wait_reason(site, job, "Running")
    assert site.status(KIND, job)["replicaStatuses"]["Worker"]["active"] == 2
    uid = site.get(KIND, job)["metadata"]["uid"]
    for found in (*pods.values(), *owned(site, CLAIMS, job).values(), *owned(site, SERVICES, job).values()):
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (uid, True, True)
    for name, pod in pods.items():
        claims = [v["persistentVolumeClaim"]["claimName"] for v in pod["spec"]["volumes"] if v["name"] == "data"]
        assert claims == [f"data-{name}"]
        made = site.api.get(f"{CLAIMS}/data-{name}")["metadata"]["creationTimestamp"]
        assert made <= pod["metadata"]["creationTimestamp"]
    end(site, f"{job}-master-0")
    wait_reason(site, job, "Succeeded")
    assert condition(site, job, "Succeeded")["status"] == "True"
    assert site.status(KIND, job)["completionTime"]
    event(site, job, "Succeeded")
    site.delete(KIND, job)
    site.until(lambda: not owned(site, CLAIMS, job) and not owned(site, PODS, job), "all to be collected")


def test_a_deleted_pod_gets_its_claims_back(site: Site) -> None:
    job = train(site)
    (name, before), *_ = running(site, job).items()
    claim = owned(site, CLAIMS, job)[f"data-{name}"]["metadata"]["uid"]
    site.api.delete(f"{PODS}/{name}", grace_s=0)
    site.until(
        lambda: any(p["metadata"]["uid"] != before["metadata"]["uid"] for p in owned(site, PODS, job).values()),
        "the successor",
    )
    (after,) = wait_phase(site, job, "Running", 1).values()
    assert after["spec"]["volumes"][0] == before["spec"]["volumes"][0]
    assert owned(site, CLAIMS, job)[f"data-{name}"]["metadata"]["uid"] == claim
    site.delete(KIND, job)


def test_a_claim_that_is_deleted_before_its_pod_starts_is_recreated(site: Site) -> None:
    job = train(site)
    ((name, before),) = wait_claims(site, job, 1).items()
    wait_phase(site, job, "Pending", 1)
    site.api.delete(f"{CLAIMS}/{name}")
    site.until(
        lambda: any(c["metadata"]["uid"] != before["metadata"]["uid"] for c in owned(site, CLAIMS, job).values()),
        "the claim to be recreated",
    )
    running(site, job)
    site.delete(KIND, job)


def test_a_replica_reuses_its_claim_after_scaling_down_and_up(site: Site) -> None:
    job = train(site, roles={"Worker": role(2)})
    running(site, job, 2)
    claims = {name: claim["metadata"]["uid"] for name, claim in owned(site, CLAIMS, job).items()}
    scale = {"spec": {"replicaSpecs": {"Worker": {"replicas": 1}}}}
    site.api.patch(f"{KINDS[KIND]}/{job}", scale)
    site.until(lambda: owned(site, PODS, job).keys() == {f"{job}-worker-0"}, "one pod")
    scale["spec"]["replicaSpecs"]["Worker"]["replicas"] = 2
    site.api.patch(f"{KINDS[KIND]}/{job}", scale)
    wait_phase(site, job, "Running", 2)
    assert {name: claim["metadata"]["uid"] for name, claim in owned(site, CLAIMS, job).items()} == claims
    site.delete(KIND, job)


def test_a_failed_pod_is_replaced_and_counted_until_the_limit(site: Site) -> None:
    spec = {"Worker": role(restartPolicy="ExitCode")}
    job = train(site, roles=spec, runPolicy={"backoffLimit": 1, "cleanPodPolicy": "All"})
    (before,) = running(site, job).values()
    end(site, f"{job}-worker-0", 137)
    site.until(lambda: site.status(KIND, job).get("restarts") == 1, "the restart")
    site.until(
        lambda: any(p["metadata"]["uid"] != before["metadata"]["uid"] for p in owned(site, PODS, job).values()),
        "the successor",
    )
    wait_phase(site, job, "Running", 1)
    end(site, f"{job}-worker-0", 137)
    assert "2 restarts exceed the backoffLimit of 1" in wait_reason(site, job, "BackoffLimitExceeded")
    site.until(lambda: not owned(site, PODS, job), "the pods to be cleaned up")
    assert len(owned(site, CLAIMS, job)) == 1
    site.delete(KIND, job)


def test_a_permanent_exit_code_fails_the_job(site: Site) -> None:
    job = train(site, roles={"Worker": role(restartPolicy="ExitCode")})
    running(site, job)
    end(site, f"{job}-worker-0", 2)
    assert "container main with exit code 2" in wait_reason(site, job, "PodFailed")
    assert condition(site, job, "Failed")["status"] == "True"
    event(site, job, "PodFailed")
    site.delete(KIND, job)


def test_a_suspended_job_keeps_its_claims_and_resumes_with_them(site: Site) -> None:
    job = train(site, runPolicy={"suspend": True})
    wait_reason(site, job, "Suspended")
    assert not owned(site, CLAIMS, job)
    suspend = {"spec": {"runPolicy": {"suspend": False}}}
    site.api.patch(f"{KINDS[KIND]}/{job}", suspend)
    running(site, job)
    claims = {name: claim["metadata"]["uid"] for name, claim in owned(site, CLAIMS, job).items()}
    suspend["spec"]["runPolicy"]["suspend"] = True
    site.api.patch(f"{KINDS[KIND]}/{job}", suspend)
    site.until(lambda: not owned(site, PODS, job), "the pods to be gone")
    site.until(lambda: condition(site, job, "Suspended").get("status") == "True", "the job to be suspended")
    assert "startTime" not in site.status(KIND, job)
    suspend["spec"]["runPolicy"]["suspend"] = False
    site.api.patch(f"{KINDS[KIND]}/{job}", suspend)
    wait_phase(site, job, "Running", 1)
    assert {name: claim["metadata"]["uid"] for name, claim in owned(site, CLAIMS, job).items()} == claims
    site.until(lambda: condition(site, job, "Suspended").get("status") == "False", "the job to be resumed")
    assert site.status(KIND, job)["startTime"]
    site.delete(KIND, job)


def test_a_job_fails_at_its_deadline_and_keeps_finished_pods(site: Site) -> None:
    """With cleanPodPolicy Running, the pod that waits for its claim is deleted and the finished one is kept."""
    roles, run = {"Worker": role(2)}, {"cleanPodPolicy": "Running"}
    job = train(site, roles=roles, successPolicy="AllWorkers", runPolicy=run)
    wait_claims(site, job, 2)
    volume_for(site, f"data-{job}-worker-0")
    wait_phase(site, job, "Running", 1)
    end(site, f"{job}-worker-0")
    site.api.patch(f"{KINDS[KIND]}/{job}", {"spec": {"runPolicy": {"activeDeadlineSeconds": 1}}})
    assert "1 seconds of activeDeadlineSeconds" in wait_reason(site, job, "DeadlineExceeded")
    site.until(lambda: owned(site, PODS, job).keys() == {f"{job}-worker-0"}, "the pending pod to be gone")
    assert condition(site, job, "Failed")["status"] == "True"
    assert len(owned(site, CLAIMS, job)) == 2
    site.delete(KIND, job)


@pytest.mark.parametrize("policy", ["Default", "AllWorkers"])
def test_the_success_policy_decides_when_a_job_succeeds(site: Site, policy: str) -> None:
    """By default worker 0 decides; cleanPodPolicy None leaves the other pods running."""
    job = train(site, roles={"Worker": role(2)}, successPolicy=policy)
    running(site, job, 2)
    end(site, f"{job}-worker-{0 if policy == 'Default' else 1}")
    if policy == "AllWorkers":
        site.until(lambda: site.status(KIND, job)["replicaStatuses"]["Worker"].get("succeeded") == 1, "the count")
        assert condition(site, job)["reason"] == "Running"
        end(site, f"{job}-worker-0")
    wait_reason(site, job, "Succeeded")
    assert len(owned(site, PODS, job)) == 2
    site.delete(KIND, job)


def test_the_pods_of_a_job_get_the_model_that_their_template_names(site: Site) -> None:
    model = site.base_model(nodeSelector={"kubernetes.io/hostname": "a"})
    site.wait_ready("ClusterBaseModel", model)
    pods = role()
    pods["template"]["metadata"] = {"annotations": {"larder.dev/model": model}}
    job = train(site, roles={"Worker": pods})
    (pod,) = running(site, job).values()
    mounts = {mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
    assert {"/data", "/opt/ml/model"} <= mounts
    assert f"model-cache-ready-{model}" in pod["spec"]["nodeSelector"]
    site.delete(KIND, job)


def test_a_job_is_deleted_with_its_claims_after_its_ttl(site: Site) -> None:
    job = train(site, runPolicy={"ttlSecondsAfterFinished": 1})
    running(site, job)
    end(site, f"{job}-worker-0")
    site.until(lambda: site.is_gone(KIND, job), "the job to be gone")
    site.until(lambda: not owned(site, CLAIMS, job), "its claims to be gone")


def test_colliding_claim_names_of_two_jobs_are_reported_as_a_conflict(site: Site) -> None:
    stem = site.name("x")
    first = train(site, f"a-{stem}", {"Worker": role(claims=("data",))})
    claim = f"data-a-{stem}-worker-0"
    running(site, first)
    second = train(site, stem, {"Worker": role(claims=("data-a",))})
    message = wait_reason(site, second, "NameConflict")
    assert claim in message
    assert f"TrainingJob {first}" in message
    event(site, second, "NameConflict")
    assert not owned(site, PODS, second)
    assert owned(site, CLAIMS, first)[claim]["metadata"]["ownerReferences"][0]["name"] == first
    site.delete(KIND, first)
    site.until(lambda: claim in owned(site, CLAIMS, second), "the claim to be free")
    site.delete(KIND, second)


def test_a_foreign_claim_is_not_adopted(site: Site) -> None:
    job = site.name("tj")
    site.api.create(CLAIMS, claim_template() | {"metadata": {"name": f"data-{job}-worker-0"}})
    train(site, job)
    assert "is not used" in wait_reason(site, job, "NameConflict")
    assert not owned(site, PODS, job)
    site.delete(KIND, job)
    site.until(lambda: site.is_gone(KIND, job), "the job to be gone")
    assert site.api.answers(f"{CLAIMS}/data-{job}-worker-0")


def test_a_name_that_is_too_long_is_reported_and_no_pod_is_created(site: Site) -> None:
    job = train(site, site.name("x" * 50))
    assert "at most 63 are allowed" in wait_reason(site, job, "NameTooLong")
    event(site, job, "NameTooLong")
    assert not owned(site, PODS, job)
    assert not site.api.get(f"{CLAIMS}?labelSelector={JOB_LABEL}={job}")["items"]
    site.delete(KIND, job)


def test_admission_warns_or_refuses_when_pods_could_not_be_created(site: Site, binaries: Binaries) -> None:
    name = site.name("x" * 46)  # and 9 hexadecimal digits make 55: only the indexes below 10 would fit in 54
    body = {"apiVersion": "larder.dev/v1alpha1", "kind": KIND, "metadata": {"name": name}}

    def dry_run(worker: Json) -> str:
        argv = [str(binaries.kubectl), f"--kubeconfig={site.cluster.plane.kubeconfig}"]
        argv += ["create", "--dry-run=server", "-f", "-"]
        text = json.dumps(body | {"spec": {"replicaSpecs": {"Worker": worker}}})
        return subprocess.run(argv, input=text, capture_output=True, text=True, check=False).stderr  # noqa: S603 - the rig's own kubectl

    warned = dry_run(role(3))
    assert warned.startswith("Warning: ")
    assert "3 of 3 pods of role Worker will not be created" in warned
    refused = dry_run(role() | {"volumeClaimTemplates": [claim_template(volumeName="theirs")]})
    assert "spec.replicaSpecs.Worker.volumeClaimTemplates[0].spec.volumeName: may not be set" in refused


def test_a_job_with_more_than_5000_replicas_is_refused(site: Site) -> None:
    with pytest.raises(CallRefused, match="more than 5000 replicas together; split the job"):
        train(site, roles={"Server": role(2501), "Worker": role(2500)})
    without_number = {key: value for key, value in role().items() if key != "replicas"}
    site.delete(KIND, train(site, roles={"Server": without_number, "Worker": role(0)}))


def test_a_claim_that_never_binds_is_reported(site: Site) -> None:
    job = train(site)
    wait_claims(site, job, 1)
    message = wait_reason(site, job, "VolumeNotBound")
    assert f"kubectl describe pvc data-{job}-worker-0" in message
    assert site.status(KIND, job)["replicaStatuses"]["Worker"]["waitingForVolumes"] == 1
    running(site, job)
    wait_reason(site, job, "Running")
    site.delete(KIND, job)


@pytest.fixture
def namespace(site: Site) -> Iterator[str]:
    """A namespace that an administrator enabled for TrainingJobs."""
    name = site.name("team")
    site.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": {"larder.dev/training-jobs": "true"}}})
    site.until(lambda: site.api.answers(f"/api/v1/namespaces/{name}/serviceaccounts/default"), "the account")
    yield name
    if site.api.answers(f"/api/v1/namespaces/{name}"):
        site.api.delete(f"/api/v1/namespaces/{name}")


def jobs_in(namespace: str) -> str:
    return f"/apis/larder.dev/v1alpha1/namespaces/{namespace}/trainingjobs"


def submit(site: Site, namespace: str, replicas: int) -> str:
    """Create a job in a namespace and return its path."""
    spec = {"replicaSpecs": {"Worker": role(replicas)}}
    body = {"apiVersion": "larder.dev/v1alpha1", "kind": KIND, "metadata": {"name": "tj"}, "spec": spec}
    site.api.create(jobs_in(namespace), body)
    return f"{jobs_in(namespace)}/tj"


def reason_at(site: Site, path: str) -> str:
    found = site.api.get(path).get("status", {}).get("conditions", [])
    return next((str(one["reason"]) for one in found if one["type"] == "Ready"), "")


def test_a_quota_is_reported_and_the_pods_are_created_once_it_is_removed(site: Site, namespace: str) -> None:
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    site.api.create(quotas, {"metadata": {"name": "none"}, "spec": {"hard": {"persistentvolumeclaims": "1"}}})
    site.until(lambda: bool(site.api.get(f"{quotas}/none").get("status", {}).get("hard")), "the quota")
    path = submit(site, namespace, 3)
    site.until(lambda: reason_at(site, path) == "Refused", "the refusal")
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    assert len(site.api.get(claims)["items"]) == 1
    assert len(site.api.get(pods)["items"]) <= 1

    def is_reported() -> bool:
        events = site.api.get(f"/api/v1/namespaces/{namespace}/events")["items"]
        return any(e["reason"] == "Refused" and "exceeded quota" in e["message"] for e in events)

    site.until(is_reported, "an Event about the quota")
    site.api.delete(f"{quotas}/none")
    site.until(lambda: len(site.api.get(pods)["items"]) == 3, "all pods")


def test_a_namespace_may_be_deleted_while_claims_are_created(site: Site, namespace: str) -> None:
    path = submit(site, namespace, 40)
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    site.until(lambda: len(site.api.get(claims)["items"]) >= 3, "some claims")
    site.api.delete(f"/api/v1/namespaces/{namespace}")
    site.until(lambda: not site.api.answers(path), "the job to be gone")
    site.until(lambda: not site.api.answers(f"/api/v1/namespaces/{namespace}"), "the namespace to be gone")


def test_a_job_deleted_while_its_claims_are_queued_leaves_none(site: Site) -> None:
    job = train(site, roles={"Worker": role(60)})
    site.until(lambda: len(owned(site, CLAIMS, job)) >= 3, "some claims")
    site.until(lambda: site.status(KIND, job).get("queuePosition", 0) >= 1, "a position in the queue")
    assert "in the queue" in wait_reason(site, job, "Queued")
    event(site, job, "Queued")
    site.delete(KIND, job)
    site.until(lambda: not owned(site, CLAIMS, job) and not owned(site, PODS, job), "all to be gone")
    later = train(site)
    wait_claims(site, later, 1)
    assert not owned(site, CLAIMS, job)
    site.delete(KIND, later)


def test_a_killed_controller_creates_each_claim_and_pod_once(site: Site) -> None:
    job = train(site, roles={"Worker": role(40)})
    site.until(lambda: len(owned(site, CLAIMS, job)) >= 5, "some claims")
    leader = site.leader()
    before = {name: claim["metadata"]["uid"] for name, claim in owned(site, CLAIMS, job).items()}
    leader.process.kill()
    try:
        after = wait_claims(site, job, 40)
        assert {name: after[name]["metadata"]["uid"] for name in before} == before
        assert after.keys() == {f"data-{job}-worker-{n}" for n in range(40)}
        site.until(lambda: len(owned(site, PODS, job)) == 40, "40 pods")
    finally:
        leader.start()
    site.delete(KIND, job)


def test_a_pod_lost_with_its_node_is_replaced_and_keeps_its_claims(site: Site) -> None:
    job = train(site)
    running(site, job)
    before = owned(site, PODS, job)[f"{job}-worker-0"]
    disrupted = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]
    site.api.patch(f"{PODS}/{job}-worker-0/status", {"status": {"phase": "Failed", "conditions": disrupted}})
    site.until(
        lambda: any(p["metadata"]["uid"] != before["metadata"]["uid"] for p in owned(site, PODS, job).values()),
        "the successor",
    )
    (after,) = wait_phase(site, job, "Running", 1).values()
    assert after["spec"]["volumes"][0] == before["spec"]["volumes"][0]
    assert site.status(KIND, job).get("restarts", 0) == 0
    site.delete(KIND, job)


def test_larder_why_explains_a_job(site: Site, why: Why) -> None:
    job = train(site)
    wait_phase(site, job, "Pending", 1)
    wait_reason(site, job, "Starting")
    output = why(f"tj/{job}")
    assert f"TrainingJob {NAMESPACE}/{job}: Starting" in output
    assert f"pod/{job}-worker-0: claim/data-{job}-worker-0: NotBound" in output
    site.delete(KIND, job)


def test_the_corrected_example_of_the_proposal_works(site: Site) -> None:
    """The YAML of the proposal with corrected names: mount and template name the volume, and the mount has a path."""
    worker = yaml.safe_load(
        """
        replicas: 1
        template:
          metadata:
            name: "my-worker"
          spec:
            containers:
              - name: "my-container"
                image: "some-image:latest"
                volumeMounts:
                  - name: "my-data"
                    mountPath: "/data"
        volumeClaimTemplates:
          - metadata:
              name: "my-data"
            spec:
              storageClassName: "my-ebs-vol"
              accessModes:
                - "ReadWriteOnce"
              resources:
                requests:
                  storage: 100Gi
        """
    )
    train(site, "mytf", {"Worker": worker})
    (claim,) = wait_claims(site, "mytf", 1).values()
    assert claim["metadata"]["name"] == "my-data-mytf-worker-0"
    assert claim["spec"]["storageClassName"] == "my-ebs-vol"
    assert claim["spec"]["resources"] == {"requests": {"storage": "100Gi"}}
    (pod,) = wait_phase(site, "mytf", "Pending", 1).values()
    volume = {"name": "my-data", "persistentVolumeClaim": {"claimName": "my-data-mytf-worker-0"}}
    assert volume in pod["spec"]["volumes"]
    site.delete(KIND, "mytf")
