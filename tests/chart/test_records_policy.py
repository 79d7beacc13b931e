"""Who may write the record of a resolved source; tried on a real API server."""

from collections.abc import Iterator

import pytest

from rig.api import Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.processes import wait_until
from shared.json_object import Json
from tests.chart.conftest import NAMESPACE

MODELS = "/apis/ome.io/v1beta1/namespaces/default/basemodels"
FORBIDDEN = 403
RULES = [{"apiGroups": ["ome.io"], "resources": ["basemodels"], "verbs": ["*"]}]


@pytest.fixture(scope="module")
def author(api: Api, plane: ControlPlane) -> Iterator[Api]:
    """A user with all rights for the BaseModels of a namespace."""
    rbac, subject = (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default",
        {"kind": "ServiceAccount", "name": "author"},
    )
    api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "author"}})
    api.create(f"{rbac}/roles", {"metadata": {"name": "author"}, "rules": RULES})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "author"}
    bound = {"metadata": {"name": "author"}, "roleRef": role, "subjects": [subject | {"namespace": "default"}]}
    api.create(f"{rbac}/rolebindings", bound)
    client = _with_account(api, plane, "default", "author")
    wait_until(lambda: bool(_refusal(client, _model("{}"))), 60, "the policy to be in force")
    yield client
    client.close()


@pytest.fixture(scope="module")
def controller(api: Api, plane: ControlPlane) -> Iterator[Api]:
    """A client with a token of the controller."""
    client = _with_account(api, plane, NAMESPACE, "larder-controller")
    yield client
    client.close()


def _with_account(api: Api, plane: ControlPlane, namespace: str, name: str) -> Api:
    token = api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", {"spec": {}})
    return plane.api_with_token(str(token["status"]["token"]))


def _model(record: str | None) -> Json:
    annotations = {} if record is None else {"larder.dev/record": record}
    spec = {"storage": {"storageUri": "hf://org/m"}}
    metadata = {"generateName": "m-", "annotations": annotations}
    return {"apiVersion": "ome.io/v1beta1", "kind": "BaseModel", "metadata": metadata, "spec": spec}


def _refusal(client: Api, model: Json) -> str:
    try:
        client.create(f"{MODELS}?dryRun=All", model)
    except CallRefused as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return str(refusal)
    return ""


def test_an_author_of_models_cannot_create_a_record(author: Api) -> None:
    assert "only Larder may set annotation larder.dev/record: remove it" in _refusal(author, _model('{"size": 1}'))
    assert not _refusal(author, _model(None))
    assert not _refusal(author, _model(""))


def test_a_user_who_may_write_model_nodes_may_create_a_record(api: Api) -> None:
    assert not _refusal(api, _model('{"size": 1}'))


def test_an_existing_record_may_be_kept_or_removed_but_not_changed(api: Api, author: Api, controller: Api) -> None:
    made = api.create(MODELS, _model('{"size": 1}'))
    path = f"{MODELS}/{made['metadata']['name']}"
    author.patch(path, {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(CallRefused, match=r"only Larder may set annotation larder\.dev/record"):
        author.patch(path, {"metadata": {"annotations": {"larder.dev/record": '{"size": 2}'}}})
    found = api.get(path)
    found["metadata"]["annotations"]["larder.dev/record"] = '{"size": 2}'
    controller.call("PUT", path, found)
    author.patch(path, {"metadata": {"annotations": {"larder.dev/record": None}}})
    api.delete(path)
