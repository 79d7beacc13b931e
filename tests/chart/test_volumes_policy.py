"""What the controller's token may do with volumes and claims, tried on a real API server."""

from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus

import pytest

from controller.claimtemplates.templates import ClaimOwner, claim_body, parse_templates
from controller.placement.volume_names import SnapshotKey, waiting_name
from controller.volumes.objects import VolumeManifest
from rig.api import Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.processes import wait_until
from shared.json_object import Json
from shared.names import short_id
from tests.builders.replica_claims import template
from tests.chart.conftest import NAMESPACE

_VOLUMES, _CLAIMS = "/api/v1/persistentvolumes", "/api/v1/namespaces/default/persistentvolumeclaims"
_JOBS = "/apis/batch/v1/namespaces/default/jobs"
_MODELS = "/apis/models.example.com/v1alpha1/namespaces/default/models"
_ROOT = "/var/lib/larder"
OURS = VolumeManifest("default", "m", "m-default", SnapshotKey("m", "r"), 1, _ROOT)


@pytest.fixture(scope="module")
def controller(api: Api, plane: ControlPlane) -> Iterator[Api]:
    """A client with a token of the controller, once the policy is in force."""
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    token = api.create(f"{accounts}/larder-controller/token", {"spec": {}})["status"]["token"]
    client = plane.api_with_token(str(token))
    wait_until(lambda: bool(refusal(client, _VOLUMES, volume(labels={}))), 60, "the policy to be in force")
    waits = "not yet synced"  # the kinds that the policies use as parameters
    wait_until(lambda: waits not in refusal(client, _CLAIMS, OURS.claim_body()), 60, "all policies to be ready")
    yield client
    client.close()


def refusal(client: Api, path: str, body: Json) -> str:
    """Return the reason for the refusal of an object, or an empty string; nothing is stored."""
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


def test_objects_that_the_controller_creates_are_accepted(controller: Api) -> None:
    assert refusal(controller, _VOLUMES, OURS.volume_body()) == ""
    assert refusal(controller, _CLAIMS, OURS.claim_body()) == ""
    waiting = replace(OURS, claim=waiting_name(OURS.wanted))
    assert refusal(controller, _VOLUMES, waiting.volume_body()) == ""
    assert refusal(controller, _CLAIMS, waiting.claim_body()) == ""


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
def test_volumes_that_are_not_read_only_local_model_volumes_are_refused(controller: Api, spec: Json) -> None:
    assert "only read-only local volumes of models" in refusal(controller, _VOLUMES, volume(**spec))


def test_a_model_of_another_namespace_is_refused(controller: Api) -> None:
    stolen = volume(local={"path": "/var/lib/larder/models/team-a_secret/r"})
    assert "only to claims in its own namespace" in refusal(controller, _VOLUMES, stolen)
    own = volume(local={"path": "/var/lib/larder/models/default_own/r"})
    assert refusal(controller, _VOLUMES, own) == ""


@pytest.mark.parametrize(("length", "confined"), [(5, True), (27, True), (28, False)])
def test_a_shortened_id_is_protected_only_while_it_contains_its_whole_namespace(
    controller: Api, length: int, *, confined: bool
) -> None:
    """The limit is documented; a shortened id never blocks the owner of the model."""
    namespace, owned = "n" * length, f"{_ROOT}/models/{short_id('n' * length + '_' + 'm' * 45)}/r"
    stolen, own = ({"namespace": one, "name": "m"} for one in ("default", namespace))
    assert bool(refusal(controller, _VOLUMES, volume(local={"path": owned}, claimRef=stolen))) is confined
    assert refusal(controller, _VOLUMES, volume(local={"path": owned}, claimRef=own)) == ""


def test_claims_without_the_label_or_a_named_volume_are_refused(controller: Api) -> None:
    unlabelled = OURS.claim_body()
    unlabelled["metadata"]["labels"] = {}
    assert "with the label larder.dev/volume" in refusal(controller, _CLAIMS, unlabelled)
    dynamic = OURS.claim_body()
    del dynamic["spec"]["volumeName"]
    assert "only claims that name their volume" in refusal(controller, _CLAIMS, dynamic)


JOB = ClaimOwner("batch/v1", "Job", "train", "1234")
(TEMPLATE,) = parse_templates([template()], "here")


def of_template(owner: ClaimOwner = JOB, **spec: object) -> Json:
    body = claim_body(TEMPLATE, "default", "train-0", owner, {})
    return body | {"spec": body["spec"] | spec}


def test_a_claim_of_a_template_is_accepted_with_a_workload_that_owns_it(controller: Api) -> None:
    assert refusal(controller, _CLAIMS, of_template()) == ""
    assert refusal(controller, _CLAIMS, of_template(replace(JOB, api_version="kubeflow.org/v1", kind="TFJob"))) == ""


def test_claims_of_templates_with_foreign_owners_or_fields_are_refused(api: Api, controller: Api) -> None:
    others = (
        of_template(replace(JOB, api_version="v1", kind="Node")),
        of_template(replace(JOB, api_version="other.org/v1")),
        of_template(volumeName="theirs"),
    )
    unowned, held, twice = of_template(), of_template(), of_template()
    del unowned["metadata"]["ownerReferences"]
    held["metadata"]["finalizers"] = ["example.org/held"]
    twice["metadata"]["ownerReferences"].append(JOB.reference() | {"uid": "5678", "controller": False})
    for body in (*others, unowned, held, twice):
        assert "must be owned by a TrainingJob" in refusal(controller, _CLAIMS, body)
    container = {"name": "main", "image": "train:1"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    job = api.create(_JOBS, {"metadata": {"name": JOB.name}, "spec": {"suspend": True, "template": template}})
    api.create(
        _CLAIMS, of_template(replace(JOB, uid=job["metadata"]["uid"]))
    )  # a claim without its owner is garbage-collected
    with pytest.raises(CallRefused, match="may not delete claims"):
        controller.delete(f"{_CLAIMS}/data-train-0")
    api.delete(f"{_JOBS}/{JOB.name}")


def test_objects_that_others_created_are_not_deleted(api: Api, controller: Api) -> None:
    theirs = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    api.create(_CLAIMS, {"metadata": {"name": "data"}, "spec": theirs})
    with pytest.raises(CallRefused, match="with the label larder"):
        controller.delete(f"{_CLAIMS}/data")
    api.delete(f"{_CLAIMS}/data")


def test_an_administrator_s_volume_in_the_store_is_refused(api: Api, controller: Api) -> None:
    del controller
    assert "is in the model store" in refusal(api, _VOLUMES, volume())


def test_only_the_size_of_a_model_s_claim_may_change(api: Api, controller: Api) -> None:
    kind = {"apiVersion": "models.example.com/v1alpha1", "kind": "Model"}
    source = {"huggingFace": {"repoId": "org/name", "revision": "main"}}
    spec = {"source": source, "version": "1", "storage": {"storageClass": "standard", "size": "1Gi"}}
    model = api.create(_MODELS, kind | {"metadata": {"name": "grown"}, "spec": spec})
    owner = kind | {"name": "grown", "uid": model["metadata"]["uid"], "controller": True}
    labels = {"larder.dev/model-claim": "1"}
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    path = f"{_CLAIMS}/model-grown"
    meta = {"name": "model-grown", "labels": labels, "ownerReferences": [owner]}
    api.create(_CLAIMS, {"metadata": meta, "spec": storage})
    wait_until(lambda: bool(api.get(path)["metadata"].get("finalizers")), 60, "the claim to be protected")
    changes: list[Json] = [
        {"labels": labels | {"team": "a"}},
        {"annotations": {"volume.kubernetes.io/selected-node": "a"}},
        {"finalizers": []},
        {"ownerReferences": []},
    ]
    for change in changes:
        assert "only change the size of a Model's claim" in _refused_change(controller, path, {"metadata": change})
    api.create(_CLAIMS, {"metadata": {"name": "theirs"}, "spec": storage})
    theirs = _refused_change(controller, f"{_CLAIMS}/theirs", {"metadata": {"labels": {"a": "b"}}})
    assert "with the label larder" in theirs
    larger = _refused_change(controller, path, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
    assert "bound claims" in larger  # the API server's own rule, not the policy
    api.delete(f"{_CLAIMS}/theirs")
    api.delete(f"{_MODELS}/grown")


def _refused_change(client: Api, path: str, change: Json) -> str:
    """Return the reason for the refusal of a change; it is retried when others change the object."""
    for _ in range(10):
        found = client.get(path)
        try:
            client.call("PUT", path, found | {part: found[part] | fields for part, fields in change.items()})
        except CallRefused as refused:
            if refused.status != HTTPStatus.CONFLICT:
                return str(refused)
        else:
            return ""
    raise AssertionError(f"{path} never stops changing")
