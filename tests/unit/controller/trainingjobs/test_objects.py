"""What a TrainingJob creates for its replicas."""

from typing import Any

import pytest

from controller.claimtemplates.templates import InvalidTemplates
from controller.trainingjobs.objects import (
    JobReplica,
    job_service,
    replica_claim,
    replica_pod,
    replicas_of,
    templates_of,
)
from shared.api.training_job import ReplicaSpec
from tests.builders.training_jobs import replica_spec, training_job

WORKER = JobReplica("Worker", 1)


def pod_of(spec: ReplicaSpec, replica: JobReplica = WORKER) -> dict[str, Any]:
    roles: dict[str, Any] = {replica.role: spec}
    return replica_pod(training_job(**roles), replica, templates_of(spec, replica.role))


def test_replicas_of_the_master_come_first_and_other_roles_in_name_order() -> None:
    roles: dict[str, Any] = {"Worker": replica_spec(2), "Evaluator": replica_spec(), "Chief": replica_spec()}
    found = [(replica.role, replica.index) for replica in replicas_of(training_job(**roles))]
    assert found == [("Chief", 0), ("Evaluator", 0), ("Worker", 0), ("Worker", 1)]


def test_a_pod_is_named_labelled_and_owned_by_its_job() -> None:
    own = {
        "labels": {"app": "mine", "larder.dev/training-job": "other"},
        "annotations": {"note": "x"},
        "name": "theirs",
    }
    template = {"metadata": own, "spec": {"containers": [{"name": "main", "image": "i"}], "hostname": "theirs"}}
    pod = pod_of(replica_spec(2, template=template))
    meta = pod["metadata"]
    assert (meta["name"], meta["namespace"], meta["annotations"]) == ("tj-worker-1", "team", {"note": "x"})
    assert (meta["labels"]["app"], meta["labels"]["larder.dev/training-job"]) == ("mine", "tj")
    assert meta["labels"]["training.kubeflow.org/replica-index"] == "1"
    assert "training.kubeflow.org/job-role" not in meta["labels"]
    assert [(owner["kind"], owner["uid"], owner["controller"]) for owner in meta["ownerReferences"]] == [
        ("TrainingJob", "u1", True)
    ]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("tj-worker-1", "tj")
    master = pod_of(replica_spec(), JobReplica("Master", 0))
    assert master["metadata"]["labels"]["training.kubeflow.org/job-role"] == "master"


@pytest.mark.parametrize(
    ("policy", "of_pod"),
    [("Always", "Always"), ("OnFailure", "OnFailure"), ("Never", "Never"), ("ExitCode", "Never")],
)
def test_a_pod_restarts_in_place_only_where_its_policy_is_one_of_pods(policy: str, of_pod: str) -> None:
    assert pod_of(replica_spec(restart_policy=policy))["spec"]["restartPolicy"] == of_pod


def test_volumes_of_the_template_take_precedence_over_claims_of_the_same_name() -> None:
    own = {"name": "scratch", "emptyDir": {}}
    spec = replica_spec(2, template={"spec": {"containers": [], "volumes": [own]}})
    volumes = pod_of(spec)["spec"]["volumes"]
    assert volumes == [own, {"name": "data", "persistentVolumeClaim": {"claimName": "data-tj-worker-1"}}]
    taken = replica_spec(2, template={"spec": {"containers": [], "volumes": [{"name": "data", "emptyDir": {}}]}})
    assert templates_of(taken, "Worker") == ()
    assert pod_of(taken)["spec"]["volumes"] == [{"name": "data", "emptyDir": {}}]
    with pytest.raises(InvalidTemplates, match=r"spec\.replicaSpecs\.Worker\.template\.spec\.volumes: write a list"):
        templates_of(replica_spec(template={"spec": {"containers": [], "volumes": "data"}}), "Worker")


def test_a_claim_is_deleted_with_its_job_and_names_its_owner() -> None:
    spec = replica_spec(2)
    job = training_job(Worker=spec)
    claim = replica_claim(job, WORKER, templates_of(spec, "Worker")[0])
    assert (claim["metadata"]["name"], claim["metadata"]["namespace"]) == ("data-tj-worker-1", "team")
    assert claim["metadata"]["ownerReferences"][0]["uid"] == "u1"
    assert claim["metadata"]["labels"]["training.kubeflow.org/replica-type"] == "worker"


def test_the_service_names_pods_before_they_are_ready() -> None:
    service = job_service(training_job())["spec"]
    assert service == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"larder.dev/training-job": "tj"},
    }
