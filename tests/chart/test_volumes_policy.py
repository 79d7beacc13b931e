"""What the controller's token may do with volumes and claims, tried on a real API server."""

from collections.abc import Iterator

import pytest

from controller.placement.volume_names import SnapshotVolume
from controller.volumes.templates import VolumeManifest
from rig.api import Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.helm import Json
from rig.processes import wait_until
from tests.chart.conftest import NAMESPACE

_VOLUMES, _CLAIMS = "/api/v1/persistentvolumes", "/api/v1/namespaces/default/persistentvolumeclaims"
OURS = VolumeManifest("default", "m", "m-default", SnapshotVolume("m", "r"), 1, "/var/lib/larder")


@pytest.fixture(scope="module")
def controller(api: Api, plane: ControlPlane) -> Iterator[Api]:
    """A client with a token of the controller, once the policy is in force."""
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    token = api.create(f"{accounts}/larder-controller/token", {"spec": {}})["status"]["token"]
    client = plane.api_with_token(str(token))
    wait_until(lambda: bool(refusal(client, _VOLUMES, volume(labels={}))), 60, "the policy to be in force")
    yield client
    client.close()


def refusal(client: Api, path: str, body: Json) -> str:
    """Return why the API server refuses an object, empty where it takes it; nothing is stored."""
    try:
        client.create(f"{path}?dryRun=All", body)
    except CallRefused as refused:
        return str(refused)
    return ""


def volume(labels: Json | None = None, **spec: object) -> Json:
    body = OURS.volume_body()
    if labels is not None:
        body["metadata"]["labels"] = labels
    return body | {"spec": {key: value for key, value in (body["spec"] | spec).items() if value is not None}}


def test_what_the_controller_creates_is_accepted(controller: Api) -> None:
    assert refusal(controller, _VOLUMES, OURS.volume_body()) == ""
    assert refusal(controller, _CLAIMS, OURS.claim_body()) == ""


@pytest.mark.parametrize(
    "spec",
    [
        {"local": None, "hostPath": {"path": "/"}},
        {"local": None, "hostPath": {"path": "/var/lib/larder/models/m/r"}},
        {"local": {"path": "/etc"}},
        {"local": {"path": "/var/lib/larder"}},
        {"mountOptions": ["rw"]},
        {"mountOptions": ["ro", "rw"]},
        {"mountOptions": ["ro", "rw,noatime"]},
        {"mountOptions": None},
        {"claimRef": None},
        {"persistentVolumeReclaimPolicy": "Delete"},
    ],
    ids=str,
)
def test_any_other_volume_is_refused(controller: Api, spec: Json) -> None:
    assert "only read-only local volumes of models" in refusal(controller, _VOLUMES, volume(**spec))


def test_a_model_of_another_namespace_is_refused(controller: Api) -> None:
    stolen = volume(local={"path": "/var/lib/larder/models/team-a_secret/r"})
    assert "only to claims of that namespace" in refusal(controller, _VOLUMES, stolen)
    own = volume(local={"path": "/var/lib/larder/models/default_own/r"})
    assert refusal(controller, _VOLUMES, own) == ""


def test_any_other_claim_is_refused(controller: Api) -> None:
    unlabelled = OURS.claim_body()
    unlabelled["metadata"]["labels"] = {}
    assert "with the label larder.dev/volume" in refusal(controller, _CLAIMS, unlabelled)
    dynamic = OURS.claim_body()
    del dynamic["spec"]["volumeName"]
    assert "only claims that name their volume" in refusal(controller, _CLAIMS, dynamic)


def test_what_others_created_is_not_deleted(api: Api, controller: Api) -> None:
    theirs = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    api.create(_CLAIMS, {"metadata": {"name": "data"}, "spec": theirs})
    with pytest.raises(CallRefused, match="with the label larder"):
        controller.delete(f"{_CLAIMS}/data")
    api.delete(f"{_CLAIMS}/data")


def test_an_administrator_s_volume_in_the_store_is_refused(api: Api, controller: Api) -> None:
    del controller
    assert "is in the store of models" in refusal(api, _VOLUMES, volume())
