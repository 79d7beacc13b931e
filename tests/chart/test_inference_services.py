"""What InferenceServices give the controller a right to, and what a policy holds it to, tried with its token."""

from collections.abc import Iterator

import pytest

from controller.keys import ModelKey
from controller.services.manifests import autoscaler_of, deployment_of, front_of, path_of
from controller.services.view import ServedModel
from rig.api import Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.helm import Json
from rig.processes import wait_until
from shared.api.inference_service import InferenceService, InferenceServiceSpec, Replicas
from shared.kube.objects import Meta
from tests.chart.conftest import NAMESPACE, Render
from tests.chart.objects import kinds, only

NAME = "larder-inference-services"
OBJECTS = {("ClusterRole", NAME), ("ClusterRoleBinding", NAME), ("ValidatingAdmissionPolicy", NAME)}
FORBIDDEN = 403
RIGHTS = {
    "inferenceservices": ["get", "list", "watch"],
    "inferenceservices/status": ["get", "update"],
    "deployments": ["get", "list", "watch", "create", "patch"],
    "services": ["get", "create", "patch"],
    "horizontalpodautoscalers": ["get", "create", "patch", "delete"],
}


def manifests(namespace: str = "default") -> list[Json]:
    """What the controller makes for one service."""
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = InferenceServiceSpec(template=template, replicas=Replicas(min=1, max=2))
    service = InferenceService(metadata=Meta(name="svc", namespace=namespace, uid="u"), spec=spec)
    model = ServedModel("m", ModelKey("ClusterBaseModel", "", "m"), "r", "m@r")
    return [deployment_of(service, model, replicas=1), front_of(service), autoscaler_of(service)]


def test_the_rights_are_these_and_can_be_switched_off(render: Render) -> None:
    rules = only(render(), "ClusterRole", NAME)["rules"]
    assert {resource: r["verbs"] for r in rules for resource in r["resources"]} == RIGHTS
    off = render({"inferenceServices": {"enabled": False}})
    assert not kinds(off) & OBJECTS
    assert kinds(render()) >= OBJECTS
    for rendered, setting in ((render(), "true"), (off, "false")):
        (container,) = only(rendered, "Deployment", "larder-controller")["spec"]["template"]["spec"]["containers"]
        assert {"name": "LARDER_INFERENCE_SERVICES", "value": setting} in container["env"]


@pytest.fixture(scope="module")
def controller(api: Api, plane: ControlPlane) -> Iterator[Api]:
    """A client with a token of the controller, once the policy is in force."""
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/larder-controller"
    client = plane.api_with_token(str(api.create(f"{account}/token", {"spec": {}})["status"]["token"]))
    wait_until(lambda: not takes(client, without_owner(manifests()[0])), 60, "the policy")
    yield client
    client.close()


def without_owner(manifest: Json) -> Json:
    return manifest | {"metadata": {k: v for k, v in manifest["metadata"].items() if k != "ownerReferences"}}


def takes(client: Api, manifest: Json) -> bool:
    meta = manifest["metadata"]
    collection = path_of(manifest["kind"], meta["namespace"], "")
    try:
        client.create(f"{collection.rstrip('/')}?dryRun=All", manifest)
    except CallRefused as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return False
    return True


@pytest.mark.parametrize("index", range(3))
def test_it_makes_what_a_service_owns_and_nothing_else(index: int, controller: Api) -> None:
    manifest = manifests()[index]
    assert takes(controller, manifest)
    assert not takes(controller, without_owner(manifest))
    other_name = manifest | {"metadata": manifest["metadata"] | {"name": "another"}}
    assert not takes(controller, other_name)
    owner = manifest["metadata"]["ownerReferences"][0] | {"kind": "Job", "apiVersion": "batch/v1"}
    assert not takes(controller, manifest | {"metadata": manifest["metadata"] | {"ownerReferences": [owner]}})


@pytest.mark.parametrize("namespace", [NAMESPACE, "kube-system"])
def test_it_serves_nothing_where_the_cluster_s_own_parts_run(namespace: str, controller: Api) -> None:
    assert not takes(controller, manifests(namespace)[0])


def test_it_changes_nothing_of_somebody_else(controller: Api, api: Api) -> None:
    theirs = without_owner(manifests()[0])
    path = path_of("Deployment", "default", "svc")
    api.create(path.rpartition("/")[0], theirs)
    try:
        with pytest.raises(CallRefused, match="may only touch what an InferenceService of the same name owns"):
            controller.patch(path, {"metadata": {"ownerReferences": manifests()[0]["metadata"]["ownerReferences"]}})
    finally:
        api.delete(path)
