"""Rights of the controller for InferenceServices, and the policy that limits them; tried with its token."""

import copy
from collections.abc import Iterator

import pytest

from controller.inferenceservices.objects import autoscaler_of, deployment_of, kube_service_of, path_of
from controller.inferenceservices.view import ServedModel
from controller.state.keys import ModelKey
from rig.api import Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.processes import wait_until
from shared.api.inference_service import InferenceService, InferenceServiceSpec, Replicas
from shared.json_object import Json
from shared.kube.objects import Meta
from tests.chart.conftest import NAMESPACE, Render
from tests.chart.objects import kinds, only

NAME = "larder-inference-services"
OWNERS = "larder-inference-service-owners"
OBJECTS = {("ClusterRole", NAME), ("ClusterRoleBinding", NAME)}
OBJECTS |= {("ValidatingAdmissionPolicy", name) for name in (NAME, OWNERS)}
OPENED, LABEL = "opened", {"larder.dev/inference-services": "true"}
ON = {"inferenceServices": {"enabled": True}}
FORBIDDEN = 403
RIGHTS = {
    "inferenceservices": ["get", "list", "watch"],
    "inferenceservices/status": ["get", "update"],
    "deployments": ["get", "list", "watch", "create", "patch"],
    "services": ["get", "create", "patch"],
    "horizontalpodautoscalers": ["get", "create", "patch", "delete"],
}


def manifests(namespace: str = OPENED, name: str = "svc", uid: str = "u") -> list[Json]:
    """The objects that the controller creates for one service."""
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = InferenceServiceSpec(template=template, replicas=Replicas(min=1, max=2))
    service = InferenceService(metadata=Meta(name=name, namespace=namespace, uid=uid), spec=spec)
    model = ServedModel("m", ModelKey("ClusterBaseModel", "", "m"), "r", "m@r")
    return [deployment_of(service, model, replicas=1), kube_service_of(service), autoscaler_of(service)]


def test_rights_for_inference_services_are_granted_only_when_switched_on(render: Render) -> None:
    rules = only(render(ON), "ClusterRole", NAME)["rules"]
    assert {resource: r["verbs"] for r in rules for resource in r["resources"]} == RIGHTS
    assert not kinds(render()) & OBJECTS
    assert kinds(render(ON)) >= OBJECTS
    for rendered, setting in ((render(ON), "true"), (render(), "false")):
        (container,) = only(rendered, "Deployment", "larder-controller")["spec"]["template"]["spec"]["containers"]
        assert {"name": "LARDER_INFERENCE_SERVICES", "value": setting} in container["env"]


@pytest.fixture(scope="module")
def controller(api: Api, plane: ControlPlane) -> Iterator[Api]:
    """A client with a token of the controller, once the policy is in force."""
    api.ensure("/api/v1/namespaces", {"metadata": {"name": OPENED, "labels": LABEL}})
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/larder-controller"
    client = plane.api_with_token(str(api.create(f"{account}/token", {"spec": {}})["status"]["token"]))
    wait_until(lambda: not takes(client, without_owner(manifests()[0])), 60, "the policy")
    wait_until(lambda: not takes(client, manifests("default")[0]), 60, "the policy")
    yield client
    client.close()


def without_owner(manifest: Json) -> Json:
    return manifest | {"metadata": {k: v for k, v in manifest["metadata"].items() if k != "ownerReferences"}}


def takes(client: Api, manifest: Json) -> bool:
    return not refusal_of(client, manifest)


def refusal_of(client: Api, manifest: Json) -> str:
    meta = manifest["metadata"]
    collection = path_of(manifest["kind"], meta["namespace"], "")
    try:
        client.create(f"{collection.rstrip('/')}?dryRun=All", manifest)
    except CallRefused as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return str(refusal)
    return ""


@pytest.mark.parametrize("index", range(3))
def test_the_controller_creates_only_objects_that_a_service_of_their_name_owns(index: int, controller: Api) -> None:
    manifest = manifests()[index]
    assert takes(controller, manifest)
    assert not takes(controller, without_owner(manifest))
    other_name = manifest | {"metadata": manifest["metadata"] | {"name": "another"}}
    assert not takes(controller, other_name)
    owner = manifest["metadata"]["ownerReferences"][0] | {"kind": "Job", "apiVersion": "batch/v1"}
    assert not takes(controller, manifest | {"metadata": manifest["metadata"] | {"ownerReferences": [owner]}})


@pytest.mark.parametrize("namespace", [NAMESPACE, "kube-system"])
def test_nothing_may_be_created_for_services_in_system_namespaces(namespace: str, controller: Api, api: Api) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    api.patch(path, {"metadata": {"labels": LABEL}})
    try:
        wait_until(lambda: "system" in refusal_of(controller, manifests(namespace)[0]), 60, "the label")
    finally:
        api.patch(path, {"metadata": {"labels": dict.fromkeys(LABEL)}})


def test_the_controller_cannot_change_a_deployment_that_no_service_owns(controller: Api, api: Api) -> None:
    theirs = without_owner(manifests()[0])
    path = path_of("Deployment", OPENED, "svc")
    api.create(path.rpartition("/")[0], theirs)
    try:
        with pytest.raises(CallRefused, match="may only change objects that an InferenceService of the same name owns"):
            controller.patch(path, {"metadata": {"ownerReferences": manifests()[0]["metadata"]["ownerReferences"]}})
    finally:
        api.delete(path)


def with_pod(**spec: object) -> Json:
    """Return a service's Deployment with changed pods, as someone with a stolen token would write it."""
    deployment: Json = copy.deepcopy(manifests()[0])
    deployment["spec"]["template"]["spec"] |= spec
    return deployment


def with_container(place: str = "containers", **fields: object) -> Json:
    plain: Json = {"name": "c", "image": "i"}
    return with_pod(**({"containers": [plain]} | {place: [plain | {"name": "x"} | fields]}))


def test_creation_is_refused_in_namespaces_without_the_label_for_services(controller: Api, api: Api) -> None:
    for index in range(3):
        message = refusal_of(controller, manifests("default")[index])
        assert "kubectl label namespace default larder.dev/inference-services=true" in message
    api.ensure("/api/v1/namespaces", {"metadata": {"name": "closed", "labels": {next(iter(LABEL)): "false"}}})
    assert not takes(controller, manifests("closed")[0])


@pytest.mark.parametrize("field", ["hostNetwork", "hostPID", "hostIPC"])
def test_pods_with_host_namespaces_are_refused(field: str, controller: Api) -> None:
    assert "may not use host namespaces" in refusal_of(controller, with_pod(**{field: True}))


@pytest.mark.parametrize("path", ["/", "/var/lib/larder/models/m/r", "/etc"])
def test_pods_with_host_paths_are_refused(path: str, controller: Api) -> None:
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "h", "hostPath": {"path": path}}]
    assert "not use hostPath" in refusal_of(controller, with_pod(volumes=volumes))


@pytest.mark.parametrize("place", ["containers", "initContainers"])
@pytest.mark.parametrize(
    "fields",
    [
        {"securityContext": {"privileged": True}},
        {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}},
        {"securityContext": {"capabilities": {"add": ["ALL"]}}},
        {"securityContext": {"procMount": "Unmasked"}},
        {"ports": [{"containerPort": 80, "hostPort": 80}]},
    ],
)
def test_privileged_containers_are_refused(place: str, fields: Json, controller: Api) -> None:
    deployment = with_container(place, **fields)
    deployment["spec"]["template"]["spec"]["hostUsers"] = False  # otherwise the API server itself refuses procMount
    assert "Pod Security baseline" in refusal_of(controller, deployment)


@pytest.mark.parametrize("place", ["pod", "containers", "initContainers"])
@pytest.mark.parametrize(
    "context",
    [
        {"seccompProfile": {"type": "Unconfined"}},
        {"appArmorProfile": {"type": "Unconfined"}},
        {"seLinuxOptions": {"type": "spc_t"}},
        {"seLinuxOptions": {"user": "system_u"}},
    ],
    ids=["seccomp", "AppArmor", "type", "user"],
)
def test_pods_without_the_confinement_of_the_node_are_refused(place: str, context: Json, controller: Api) -> None:
    fields = {"securityContext": context}
    deployment = with_pod(**fields) if place == "pod" else with_container(place, **fields)
    assert "must keep the seccomp, AppArmor and SELinux" in refusal_of(controller, deployment)


def test_unsafe_sysctls_are_refused(controller: Api) -> None:
    context = {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}
    assert "only set the sysctls" in refusal_of(controller, with_pod(securityContext=context))


def test_pods_without_special_privileges_are_accepted(controller: Api) -> None:
    context = {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}, "runAsUser": 1}
    container = with_container(securityContext=context, ports=[{"containerPort": 80}])
    assert takes(controller, container)
    volumes = [{"name": "s", "secret": {"secretName": "s"}}, {"name": "e", "emptyDir": {}}]
    assert takes(controller, with_pod(volumes=volumes, serviceAccountName="default"))
    confined: Json = {"seccompProfile": {"type": "RuntimeDefault"}, "seLinuxOptions": {"level": "s0:c1,c2"}}
    confined |= {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}
    assert takes(controller, with_pod(securityContext=confined))


def test_only_accounts_that_an_administrator_lists_are_allowed(controller: Api, api: Api) -> None:
    assert "larder.dev/inference-service-accounts" in refusal_of(controller, with_pod(serviceAccountName="strong"))
    assert not takes(controller, with_pod(serviceAccount="strong"))
    namespace = f"/api/v1/namespaces/{OPENED}"
    api.patch(namespace, {"metadata": {"annotations": {"larder.dev/inference-service-accounts": "runner, other"}}})
    wait_until(lambda: takes(controller, with_pod(serviceAccountName="other")), 60, "the annotation to be seen")
    assert not takes(controller, with_pod(serviceAccountName="strong"))


def test_services_and_scalers_may_select_only_their_own_pods(controller: Api) -> None:
    deployment, front, scaler = manifests()
    assert takes(controller, deployment)
    changes: list[Json] = [{"externalIPs": ["10.1.2.3"]}, {"type": "LoadBalancer"}, {"type": "NodePort"}]
    changes += [{"selector": {"app": "other"}}, {"type": "ExternalName", "externalName": "h.test"}]
    for change in changes:
        assert "type ClusterIP" in refusal_of(controller, front | {"spec": front["spec"] | change}), change
    target = scaler["spec"]["scaleTargetRef"] | {"name": "other"}
    other = scaler | {"spec": scaler["spec"] | {"scaleTargetRef": target}}
    assert "may only scale the Deployment of the InferenceService" in refusal_of(controller, other)


def test_owner_and_service_account_are_compared_with_the_existing_service(controller: Api, api: Api) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "runner"}}
    spec = {"model": {"name": "m"}, "template": template}
    body = {"apiVersion": "ome.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "real"}, "spec": spec}
    collection = f"/apis/ome.io/v1beta1/namespaces/{OPENED}/inferenceservices"
    uid = api.create(collection, body)["metadata"]["uid"]
    try:
        wait_until(
            lambda: "does not match the existing InferenceService" in refusal_of(controller, manifests(name="real")[0]),
            60,
            "it",
        )
        own = manifests(name="real", uid=uid)[0]
        assert "specifies a different service account" in refusal_of(controller, own)
        own["spec"]["template"]["spec"]["serviceAccountName"] = "runner"
        api.patch(
            f"/api/v1/namespaces/{OPENED}",
            {"metadata": {"annotations": {"larder.dev/inference-service-accounts": "runner"}}},
        )
        wait_until(lambda: takes(controller, own), 60, "the annotation to be seen")
    finally:
        api.delete(f"{collection}/real")


def test_the_policy_does_not_restrict_other_users(api: Api) -> None:
    """The policy does not apply to a Deployment of an administrator in an enabled namespace."""
    for namespace in (OPENED, "default"):
        strong = with_pod(hostNetwork=True, hostPID=True)
        strong["metadata"] = {"name": "theirs", "namespace": namespace}
        assert takes(api, strong)
