"""Helpers for the tests of Job policies: a client with the controller's token, the image, and changed Jobs."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rig.api import Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.processes import wait_until
from shared.json_object import Json
from tests.chart.conftest import NAMESPACE, Render
from tests.chart.objects import only

FORBIDDEN = 403
Change = Callable[[Json, Json], object]  # of the pod's spec and its container


@contextmanager
def controller_client(api: Api, plane: ControlPlane, refused: Json, namespace: str) -> Iterator[Api]:
    """Yield a client with the controller's token once the policies refuse this Job in a namespace."""
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/larder-controller"
    client = plane.api_with_token(str(api.create(f"{account}/token", {"spec": {}})["status"]["token"]))
    wait_until(lambda: not is_taken(client, refused, namespace), 60, "the policy to be in force")
    yield client
    client.close()


def agent_image(render: Render) -> str:
    """Return the image that the controller uses for Jobs, according to the chart."""
    (container,) = only(render(), "Deployment", "larder-controller")["spec"]["template"]["spec"]["containers"]
    (image,) = (e["value"] for e in container["env"] if e["name"] == "LARDER_AGENT_IMAGE")
    return str(image)


def changed(job: Json, change: Change) -> Json:
    """Return a copy of the Job, changed."""
    other = copy.deepcopy(job)
    spec = other["spec"]["template"]["spec"]
    change(spec, spec["containers"][0])
    return other


def is_taken(client: Api, job: Json, namespace: str) -> bool:
    """Return whether the API server accepts the Job in a namespace, or forbids it."""
    body = job | {"metadata": job["metadata"] | {"namespace": namespace}}
    try:
        client.create(f"/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All", body)
    except CallRefused as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return False
    return True
