"""The controller may create only metadata Jobs of one shape; tried with its token on a real API server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from controller.claims.job import JobSettings, job_manifest
from controller.claims.read_request import ClaimReadRequest
from controller.placement.claim_place import ClaimPath
from controller.state.keys import ModelKey
from rig.api import Api
from rig.control_plane import ControlPlane
from shared.json_object import Json
from tests.chart.conftest import Render
from tests.chart.job_policies import Change, agent_image, changed, controller_client, is_taken
from tests.chart.objects import only

NAMESPACE_OF_JOBS = "default"


@pytest.fixture(scope="module")
def controller(api: Api, plane: ControlPlane) -> Iterator[Api]:
    """A client with a token of the controller."""
    with controller_client(api, plane, changed(_job(""), WRONG["another image"]), NAMESPACE_OF_JOBS) as client:
        yield client


@pytest.fixture
def job(render: Render) -> Json:
    """The Job as the controller of this chart creates it."""
    return _job(agent_image(render))


def _job(image: str) -> Json:
    key, place = ModelKey("ClusterBaseModel", "", "m"), ClaimPath("default", "data", "models/m")
    return job_manifest(
        key, "uid", place, ClaimReadRequest("i", 1, "larder-extract-1"), None, JobSettings(image or "none")
    )


def test_the_controllers_metadata_job_is_accepted(controller: Api, job: Json) -> None:
    assert is_taken(controller, job, NAMESPACE_OF_JOBS)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({}, []),
        ({"imagePullSecrets": [{"name": "mirror"}]}, ["mirror"]),
        ({"imagePullSecrets": [{"name": "mirror"}], "claims": {"imagePullSecrets": [{"name": "own"}]}}, ["own"]),
    ],
)
def test_the_job_uses_the_image_pull_secrets_of_the_chart(values: Json, names: list[str], render: Render) -> None:
    rendered = render(values)
    (container,) = only(rendered, "Deployment", "larder-controller")["spec"]["template"]["spec"]["containers"]
    (text,) = (e["value"] for e in container["env"] if e["name"] == "LARDER_CLAIMS_IMAGE_PULL_SECRETS")
    assert json.loads(text) == [{"name": name} for name in names]
    policy = only(rendered, "ValidatingAdmissionPolicy", "larder-metadata-jobs")
    (rule,) = (v["expression"] for v in policy["spec"]["validations"] if "imagePullSecrets" in v["expression"])
    assert rule.endswith(f"s.name in {names})")


WRONG: dict[str, Change] = {
    "an account": lambda spec, _: spec.update(serviceAccountName="admin"),
    "a token": lambda spec, _: spec.update(automountServiceAccountToken=True),
    "a token by default": lambda spec, _: spec.pop("automountServiceAccountToken"),
    "another image": lambda _, container: container.update(image="other"),
    "another command": lambda _, container: container.update(command=["sh"]),
    "a variable": lambda _, container: container.update(env=[{"name": "A", "value": "b"}]),
    "somebody's registry": lambda spec, _: spec.update(imagePullSecrets=[{"name": "theirs"}]),
    "two containers": lambda spec, container: spec["containers"].append(container | {"name": "two"}),
    "an init container": lambda spec, container: spec.update(initContainers=[container | {"name": "two"}]),
    "a secret": lambda spec, _: spec["volumes"].append({"name": "s", "secret": {"secretName": "s"}}),
    "a host path": lambda spec, _: spec["volumes"].append({"name": "h", "hostPath": {"path": "/"}}),
    "a claim to write": lambda spec, _: spec["volumes"][0]["persistentVolumeClaim"].update(readOnly=False),
    "a mount to write": lambda _, container: container["volumeMounts"][0].update(readOnly=False),
    "the host's network": lambda spec, _: spec.update(hostNetwork=True),
    "root": lambda spec, _: spec["securityContext"].update(runAsNonRoot=False),
    "a capability": lambda _, c: c["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]),
    "root in the container": lambda _, c: c["securityContext"].update(runAsUser=0, runAsNonRoot=False),
    "a command after the start": lambda _, c: c.update(lifecycle={"postStart": {"exec": {"command": ["sh"]}}}),
    "a command as a probe": lambda _, c: c.update(livenessProbe={"exec": {"command": ["sh"]}}),
    "more privileges": lambda _, c: c["securityContext"].pop("allowPrivilegeEscalation"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_metadata_job_of_any_other_shape_is_refused(what: str, controller: Api, job: Json) -> None:
    assert not is_taken(controller, changed(job, WRONG[what]), NAMESPACE_OF_JOBS)


def test_the_controller_needs_the_reserved_job_name_and_other_users_are_not_restricted(
    controller: Api, api: Api, job: Json
) -> None:
    named: dict[str, Any] = job | {"metadata": job["metadata"] | {"name": "other"}}
    assert not is_taken(controller, named, NAMESPACE_OF_JOBS)
    assert is_taken(api, changed(named, WRONG["another image"]), NAMESPACE_OF_JOBS)
