"""Rights of the controller for TrainingJobs, and the policies that limit them; tried with its token."""

import copy
from collections.abc import Iterator
from functools import partial

import pytest

from controller.trainingjobs.objects import JobReplica, job_service, replica_claim, replica_pod, templates_of
from rig.api import Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.helm import LARDER, Helm
from rig.processes import wait_until
from shared.api.training_job import ReplicaSpec, TrainingJob, TrainingJobSpec
from shared.devices.annotation import ANNOTATION
from shared.json_object import Json
from shared.kube.objects import Meta
from tests.chart.conftest import NAMESPACE, VALUES, Render
from tests.chart.objects import kinds, only

NAME, OWNERS = "larder-training-jobs", "larder-training-job-owners"
OBJECTS = {("ClusterRole", NAME), ("ClusterRoleBinding", NAME)}
OBJECTS |= {("ValidatingAdmissionPolicy", name) for name in (NAME, OWNERS)}
OPENED, LABEL, ACCOUNTS = "training", "larder.dev/training-jobs", "larder.dev/training-job-accounts"
ON = {"trainingJobs": {"enabled": True}}
FORBIDDEN = 403
RIGHTS = {
    "trainingjobs": ["get", "list", "watch", "delete"],
    "trainingjobs/status": ["get", "update"],
    "trainingjobs/finalizers": ["update"],
    "pods": ["create", "delete"],
    "services": ["get", "list", "watch", "create"],
}
PLURALS = {"Pod": "pods", "PersistentVolumeClaim": "persistentvolumeclaims", "Service": "services"}
TEMPLATE = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def manifests(namespace: str = OPENED, name: str = "tj", uid: str = "u") -> dict[str, Json]:
    """The objects that the controller creates for one job, by kind."""
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = ReplicaSpec(template=template, volume_claim_templates=[TEMPLATE])
    job = TrainingJob(
        metadata=Meta(name=name, namespace=namespace, uid=uid), spec=TrainingJobSpec(replica_specs={"Worker": spec})
    )
    replica, templates = JobReplica("Worker", 0), templates_of(spec, "Worker")
    made = [replica_pod(job, replica, templates), replica_claim(job, replica, templates[0]), job_service(job)]
    return {body["kind"]: body for body in made}


def with_metadata(body: Json, **fields: object) -> Json:
    return body | {"metadata": {k: v for k, v in (body["metadata"] | fields).items() if v is not None}}


def with_pod(**spec: object) -> Json:
    body = copy.deepcopy(manifests()["Pod"])
    body["spec"] |= spec
    return body


def refusal_of(client: Api, body: Json) -> str:
    path = f"/api/v1/namespaces/{body['metadata']['namespace']}/{PLURALS[body['kind']]}?dryRun=All"
    try:
        client.create(path, body)
    except CallRefused as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return str(refusal)
    return ""


@pytest.fixture(scope="module")
def controller(api: Api, plane: ControlPlane) -> Iterator[Api]:
    """A client with a token of the controller, once the policies are in force."""
    annotations = {ACCOUNTS: "trainer, other"}
    metadata = {"name": OPENED, "labels": {LABEL: "true"}, "annotations": annotations}
    api.ensure("/api/v1/namespaces", {"metadata": metadata})
    for account in ("default", "trainer"):
        path = f"/api/v1/namespaces/{OPENED}/serviceaccounts"
        api.ensure(path, {"metadata": {"name": account}})
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/larder-controller"
    client = plane.api_with_token(str(api.create(f"{account}/token", {"spec": {}})["status"]["token"]))
    for body in manifests().values():
        unowned = with_metadata(body, ownerReferences=None)
        wait_until(partial(refusal_of, client, unowned), 60, "the policies")  # type: ignore[arg-type]
    yield client
    client.close()


def test_rights_for_training_jobs_are_granted_only_when_switched_on(render: Render) -> None:
    rules = only(render(ON), "ClusterRole", NAME)["rules"]
    assert {resource: r["verbs"] for r in rules for resource in r["resources"]} == RIGHTS
    assert not kinds(render()) & OBJECTS
    assert kinds(render(ON)) >= OBJECTS
    for rendered, setting in ((render(ON), "true"), (render(), "false")):
        (container,) = only(rendered, "Deployment", "larder-controller")["spec"]["template"]["spec"]["containers"]
        assert {"name": "LARDER_TRAINING_JOBS", "value": setting} in container["env"]


@pytest.mark.parametrize("kind", PLURALS)
def test_the_controller_creates_only_objects_that_a_training_job_controls(kind: str, controller: Api) -> None:
    body = manifests()[kind]
    assert refusal_of(controller, body) == ""
    owner = body["metadata"]["ownerReferences"][0]
    for owners in (None, [owner | {"kind": "ReplicaSet", "apiVersion": "apps/v1"}], [owner | {"controller": False}]):
        assert refusal_of(controller, with_metadata(body, ownerReferences=owners))
    assert refusal_of(controller, with_metadata(body, name="another"))


@pytest.mark.parametrize("kind", PLURALS)
def test_creation_is_refused_in_namespaces_without_the_label_for_training_jobs(kind: str, controller: Api) -> None:
    message = refusal_of(controller, manifests("default")[kind])
    assert "kubectl label namespace default larder.dev/training-jobs=true" in message


@pytest.mark.parametrize("namespace", [NAMESPACE, "kube-system"])
def test_pods_of_training_jobs_are_refused_in_system_namespaces(namespace: str, controller: Api) -> None:
    assert refusal_of(controller, manifests(namespace)["Pod"])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"hostNetwork": True}, "may not use host namespaces"),
        ({"hostIPC": True}, "may not use host namespaces"),
        ({"volumes": [{"name": "h", "hostPath": {"path": "/etc"}}]}, "not use hostPath"),
        (
            {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}]},
            "may not be privileged",
        ),
        (
            {"initContainers": [{"name": "d", "image": "i", "ports": [{"containerPort": 1, "hostPort": 1}]}]},
            "use host ports",
        ),
        ({"serviceAccountName": "admin"}, "must use the service account default, or one that an administrator lists"),
        ({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}, "must keep the"),
        ({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, "must keep the"),
        (
            {
                "containers": [
                    {"name": "c", "image": "i", "securityContext": {"seccompProfile": {"type": "Unconfined"}}}
                ]
            },
            "must keep the",
        ),
        ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, "only set the sysctls"),
    ],
    ids=[
        *("network", "ipc", "hostPath", "privileged", "hostPort", "account"),
        *("SELinux", "AppArmor", "seccomp", "sysctl"),
    ],
)
def test_pods_that_could_reach_the_node_are_refused(spec: Json, message: str, controller: Api, api: Api) -> None:
    api.ensure(f"/api/v1/namespaces/{OPENED}/serviceaccounts", {"metadata": {"name": "admin"}})
    assert message in refusal_of(controller, with_pod(**spec))


def test_a_service_account_listed_by_an_administrator_is_allowed(controller: Api) -> None:
    assert refusal_of(controller, with_pod(serviceAccountName="trainer")) == ""


def test_a_service_may_select_only_the_pods_of_its_job(controller: Api) -> None:
    service = manifests()["Service"]
    for spec in (
        {"selector": {"app": "theirs"}},
        {"clusterIP": "", "ports": [{"port": 80}]},
        {"externalIPs": ["192.0.2.1"]},
    ):
        assert refusal_of(controller, service | {"spec": service["spec"] | spec})
    both = with_metadata(service, labels=service["metadata"]["labels"] | {"larder.dev/inference-service": "x"})
    assert refusal_of(controller, with_metadata(both, name="another")), "no label evades both policies"


def test_the_controller_cannot_create_claims_with_a_volume_name_or_delete_claims(controller: Api, api: Api) -> None:
    claim = manifests()["PersistentVolumeClaim"]
    assert refusal_of(controller, claim | {"spec": claim["spec"] | {"volumeName": "theirs"}})
    path = f"/api/v1/namespaces/{OPENED}/persistentvolumeclaims"
    one = f"{path}/{claim['metadata']['name']}"
    api.create(path, with_metadata(claim, finalizers=["example.com/hold"]))  # because its owner does not exist
    try:
        with pytest.raises(CallRefused, match="may not delete claims"):
            controller.delete(one)
    finally:
        api.delete(one)
        api.patch(one, {"metadata": {"finalizers": None}})


def test_a_foreign_pod_is_neither_deleted_nor_changed(controller: Api, api: Api) -> None:
    path = f"/api/v1/namespaces/{OPENED}/pods"
    theirs = with_metadata(manifests()["Pod"], name="theirs", ownerReferences=None)
    api.create(path, theirs)
    try:
        with pytest.raises(CallRefused, match="may only create and delete pods that a TrainingJob owns"):
            controller.delete(f"{path}/theirs")
    finally:
        api.delete(f"{path}/theirs", grace_s=0)


def test_owner_and_service_account_are_compared_with_the_existing_job(controller: Api, api: Api) -> None:
    jobs = f"/apis/larder.dev/v1alpha1/namespaces/{OPENED}/trainingjobs"
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicaSpecs": {"Worker": {"template": template}}}
    body = {"apiVersion": "larder.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "real"}, "spec": spec}
    uid = api.create(jobs, body)["metadata"]["uid"]
    try:
        for kind in ("Pod", "PersistentVolumeClaim"):
            invented = manifests(name="real")[kind]
            wait_until(lambda one=invented: "does not match the exis" in refusal_of(controller, one), 60, "the owner")  # type: ignore[misc]
            assert refusal_of(controller, manifests(name="real", uid=uid)[kind]) == ""
        pod = manifests(name="real", uid=uid)["Pod"]
        pod["spec"]["serviceAccountName"] = "trainer"
        assert "specifies a different service account" in refusal_of(controller, pod)
        with pytest.raises(CallRefused, match="once its ttlSecondsAfterFinished has passed"):
            controller.delete(f"{jobs}/real")
    finally:
        api.delete(f"{jobs}/real")


@pytest.fixture(scope="module")
def unreviewed(cluster: Helm) -> Iterator[None]:
    """The release while pods pass although no controller reviews them; the chart's values are restored afterwards."""
    ignored = dict.fromkeys(("ephemeralContainers", "models", "pods"), "Ignore")
    cluster.upgrade(LARDER, VALUES | {"admission": {"failurePolicy": ignored}}, NAMESPACE)
    yield
    cluster.upgrade(LARDER, VALUES, NAMESPACE)


@pytest.mark.usefixtures("unreviewed")
def test_the_template_of_a_training_job_cannot_write_an_allocation_of_devices(controller: Api) -> None:
    """Only larder-scheduler writes allocations, by binding pods; the controller, which it is part of, creates these."""

    def answer(text: str) -> str:
        body = with_metadata(manifests()["Pod"], annotations={ANNOTATION: text})
        try:
            controller.create(f"/api/v1/namespaces/{OPENED}/pods?dryRun=All", body)
        except CallRefused as refusal:
            return str(refusal)
        return ""

    asks = '{"runningcontainer":{"c":{"requests":{"a":1}}}}'
    wait_until(lambda: answer(asks) == "", 30, "the webhook to be ignored")
    allocated = '{"nodename":"n","runningcontainer":{"c":{"allocatefrom":{"a":"b"}}}}'
    assert "only larder-scheduler may set nodename" in answer(allocated)
