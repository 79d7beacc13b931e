"""The controller may create and delete only download Jobs; tried with its token on a real API server."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from controller.downloads.job import DownloadJobSettings
from controller.modelcaches.job import DownloadOrder, download_job
from controller.modelcaches.objects import CACHE_LABEL, ClaimTemplate, StorageManifest
from controller.modeloperator.objects import MODEL_LABEL, ModelDownload, claim_manifest, download_manifest
from controller.modeloperator.source import source_of
from rig.api import Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.processes import wait_until
from shared.json_object import Json
from shared.selection.choice import WHOLE
from tests.builders.model_caches import cache
from tests.builders.models_on_claims import model
from tests.chart.conftest import Render
from tests.chart.job_policies import Change, agent_image, changed, controller_client, is_taken

# team-a is among the credentialNamespaces of the installation, default is not.
TEAM, ELSEWHERE = "team-a", "default"


@pytest.fixture(scope="module")
def controller(api: Api, plane: ControlPlane) -> Iterator[Api]:
    """A client with a token of the controller."""
    strange = changed(_job("none"), lambda _, container: container.update(image="other"))
    with controller_client(api, plane, strange, TEAM) as client:
        yield client


@pytest.fixture(params=["cache", "model"])
def job(render: Render, request: pytest.FixtureRequest) -> Json:
    """The Job of a ModelCache or a Model as the controller of this chart creates it."""
    return {"cache": _job, "model": _model_job}[request.param](agent_image(render))


def _job(image: str) -> Json:
    order = DownloadOrder("larder-fill-1", "llama", "hf://o/m@c", "c", WHOLE)
    settings = DownloadJobSettings(image, environment={"HF_ENDPOINT": "https://hub"})
    return download_job(cache(credentials_secret="hub"), order, ("HF_TOKEN",), ("hub",), settings)


def _model_job(image: str) -> Json:
    found = model()
    settings = DownloadJobSettings(image, environment={"HF_ENDPOINT": "https://hub"})
    return download_manifest(found, ModelDownload("0" * 16, "c1"), source_of(found.spec), settings)


def test_a_download_job_may_mount_a_secret_only_where_the_controller_may_read_secrets(
    controller: Api, job: Json
) -> None:
    assert is_taken(controller, job, TEAM)
    assert not is_taken(controller, job, ELSEWHERE)
    assert is_taken(controller, changed(job, _without_secret), ELSEWHERE)


def _without_secret(spec: Json, container: Json) -> None:
    spec["volumes"] = [v for v in spec["volumes"] if "secret" not in v]
    container["volumeMounts"] = [m for m in container["volumeMounts"] if m["name"] != "credentials"]


WRONG: dict[str, Change] = {
    "an account": lambda spec, _: spec.update(serviceAccountName="admin"),
    "a token": lambda spec, _: spec.update(automountServiceAccountToken=True),
    "another command": lambda _, container: container.update(command=["sh"]),
    "a variable": lambda _, container: container["env"].append({"name": "LD_PRELOAD", "value": "b"}),
    "a variable of a secret": lambda _, c: c["env"].append(
        {"name": "HF_ENDPOINT", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    ),
    "two containers": lambda spec, container: spec["containers"].append(container | {"name": "two"}),
    "a host path": lambda spec, _: spec["volumes"].append({"name": "h", "hostPath": {"path": "/"}}),
    "a token as a volume": lambda spec, _: spec["volumes"].append(
        {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
    ),
    "somebody's ConfigMap": lambda spec, _: spec["volumes"].append({"name": "c", "configMap": {"name": "c"}}),
    "two claims": lambda spec, _: spec["volumes"].append(
        {"name": "c2", "persistentVolumeClaim": {"claimName": "other"}}
    ),
    "the host's network": lambda spec, _: spec.update(hostNetwork=True),
    "root": lambda spec, _: spec["securityContext"].update(runAsNonRoot=False),
    "a capability": lambda _, c: c["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]),
    "priority over everybody": lambda spec, _: spec.update(priorityClassName="system-node-critical"),
    "a node of its choice": lambda spec, _: spec.update(nodeName="n"),
    "devices": lambda spec, _: spec.update(resourceClaims=[{"name": "d", "resourceClaimName": "d"}]),
    "a command as a probe": lambda _, c: c.update(livenessProbe={"exec": {"command": ["sh"]}}),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_download_job_of_any_other_shape_is_refused(what: str, controller: Api, job: Json) -> None:
    assert not is_taken(controller, changed(job, WRONG[what]), TEAM)


@pytest.mark.parametrize("count", ["parallelism", "completions"])
def test_a_download_job_with_more_than_one_pod_is_refused(count: str, controller: Api, job: Json) -> None:
    assert not is_taken(controller, job | {"spec": job["spec"] | {count: 2}}, TEAM)


def test_a_download_job_needs_an_owner_and_the_name_derived_from_it(controller: Api, job: Json) -> None:
    assert not is_taken(controller, job | {"metadata": {"name": job["metadata"]["name"]}}, TEAM)
    metadata = job["metadata"]
    other = {"larder-fill-1": "model-download-llama", "model-download-llama": "larder-fill-1"}[metadata["name"]]
    assert not is_taken(controller, job | {"metadata": metadata | {"name": other}}, TEAM)
    assert not is_taken(controller, job | {"metadata": metadata | {"name": f"{metadata['name']}-2"}}, TEAM) or (
        other == "model-download-llama"  # Jobs of caches have a hash in their name
    )


def test_a_download_job_for_a_claim_that_larder_did_not_create_is_refused(controller: Api, api: Api, job: Json) -> None:
    claims = f"/api/v1/namespaces/{TEAM}/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"}
    volumes = job["spec"]["template"]["spec"]["volumes"]
    (name,) = (v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v)
    body: Json = {"metadata": {"name": name}, "spec": spec}
    api.create(claims, body)
    wait_until(lambda: not is_taken(controller, job, TEAM), 30, "the claim to be compared")
    api.delete(f"{claims}/{name}")
    wait_until(lambda: not api.answers(f"{claims}/{name}"), 30, "the claim to be gone")
    body["metadata"]["labels"] = {CACHE_LABEL: "u1"} if name == "llama" else {MODEL_LABEL: "u1"}
    api.create(claims, body)
    wait_until(lambda: is_taken(controller, job, TEAM), 30, "a claim with the label to be accepted")
    api.delete(f"{claims}/{name}")
    wait_until(lambda: not api.answers(f"{claims}/{name}"), 30, "the claim to be gone")


def test_the_controller_may_delete_only_download_jobs(controller: Api, api: Api, job: Json) -> None:
    jobs = f"/apis/batch/v1/namespaces/{TEAM}/jobs"
    suspended = copy.deepcopy(job)
    suspended["spec"]["suspend"] = True
    suspended["spec"]["template"]["spec"]["containers"][0]["image"] = "before-an-upgrade"
    theirs = copy.deepcopy(suspended)
    name = f"theirs-{job['metadata']['name']}"  # its own name, because the Job of another run may still exist
    theirs["metadata"] = {"name": name}
    for body in (suspended, theirs):
        body["metadata"]["namespace"] = TEAM
        api.create(jobs, body)
    with pytest.raises(CallRefused):
        controller.delete(f"{jobs}/{name}")
    controller.delete(f"{jobs}/{job['metadata']['name']}")
    api.delete(f"{jobs}/{name}")


def _refusal(client: Api, path: str, body: Json) -> str:
    try:
        client.create(f"{path}?dryRun=All", body)
    except CallRefused as refused:
        return str(refused)
    return ""


def _manifest(volume: dict[str, Any] | None = None) -> StorageManifest:
    return StorageManifest(cache().metadata, "llama", 2**30, ClaimTemplate("team", {}, volume or {}))


def test_the_claim_of_a_model_needs_the_name_and_owner_of_the_model(controller: Api) -> None:
    claims, body = f"/api/v1/namespaces/{TEAM}/persistentvolumeclaims", claim_manifest(model())
    body["metadata"]["namespace"] = TEAM
    assert _refusal(controller, claims, body) == ""
    assert "if the Model owns it" in _refusal(
        controller, claims, body | {"metadata": body["metadata"] | {"name": "model-other"}}
    )
    body["metadata"].pop("ownerReferences")
    assert "if the Model owns it" in _refusal(controller, claims, body)


def test_claims_need_a_cache_as_owner_and_volumes_need_an_allowed_driver(controller: Api) -> None:
    claims, body = f"/api/v1/namespaces/{TEAM}/persistentvolumeclaims", _manifest().claim_body()
    body["metadata"]["namespace"] = TEAM
    assert _refusal(controller, claims, body) == ""
    body["metadata"].pop("ownerReferences")
    assert "if the cache owns it" in _refusal(controller, claims, body)
    volume = _manifest({"csi": {"driver": "s3.csi.aws.com", "volumeHandle": "h"}}).volume_body("llama-team")
    assert "modelCaches.csiDrivers" in _refusal(controller, "/api/v1/persistentvolumes", volume)
