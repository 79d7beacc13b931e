"""What the cluster's default roles allow users of a namespace to do with Larder's kinds; tried on a real API server."""

from collections.abc import Iterator

import pytest

from rig.api import Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.processes import wait_until
from shared.json_object import Json
from tests.chart.conftest import Render
from tests.chart.objects import kinds

OME, KSERVE = "/apis/ome.io/v1beta1", "/apis/serving.kserve.io/v1alpha1"
MODEL: Json = {
    "apiVersion": "ome.io/v1beta1",
    "kind": "BaseModel",
    "metadata": {"name": "roles"},
    "spec": {"storage": {"storageUri": "hf://org/m"}},
}
FORBIDDEN = 403


def _may(client: Api, method: str, path: str, body: Json | None = None) -> bool:
    try:
        client.call(method, path, body)
    except CallRefused as refusal:
        return refusal.status != FORBIDDEN
    return True


@pytest.fixture(params=["view", "edit", "admin"])
def user(request: pytest.FixtureRequest, plane: ControlPlane, api: Api) -> Iterator[tuple[str, Api]]:
    """A user with one of the cluster's roles in namespace team-a, once the role includes Larder's kinds."""
    name = f"roles-{request.param}"
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": request.param},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    }
    bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/team-a/rolebindings"
    api.ensure(bindings, binding)
    client = plane.api_for(name)
    wait_until(lambda: _may(client, "GET", f"{OME}/namespaces/team-a/basemodels"), 60, f"{request.param} to read")
    yield request.param, client
    client.close()
    api.delete(f"{bindings}/{name}")


def test_an_editor_manages_models_only_in_their_own_namespace(user: tuple[str, Api]) -> None:
    role, client = user
    models = f"{OME}/namespaces/%s/basemodels"
    dry = "?dryRun=All"
    assert _may(client, "POST", models % "team-a" + dry, MODEL) is (role != "view")
    assert _may(client, "DELETE", models % "team-a" + "/roles" + dry) is (role != "view")
    assert not _may(client, "POST", models % "team-b" + dry, MODEL)
    assert not _may(client, "GET", models % "team-b")
    assert not _may(client, "POST", f"{OME}/clusterbasemodels{dry}", MODEL | {"kind": "ClusterBaseModel"})
    assert not _may(client, "POST", f"{KSERVE}/clustermodelcaches{dry}", {})
    assert not _may(client, "PUT", models % "team-a" + "/roles/status", MODEL)
    assert not _may(client, "GET", "/apis/larder.dev/v1alpha1/modelnodes")


def test_the_roles_can_be_switched_off(render: Render) -> None:
    names = {("ClusterRole", "larder-view"), ("ClusterRole", "larder-edit")}
    assert names <= kinds(render())
    assert not names & kinds(render({"rbac": {"aggregate": False}}))
