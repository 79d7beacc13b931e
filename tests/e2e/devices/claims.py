"""Test pods that claim models as devices."""

import hashlib

from rig.node.containerd import SANDBOX_IMAGE
from rig.node.installation import NAMESPACE, Installation
from shared.dra import DRIVER, RESOURCES, SLICES, device_name
from shared.json_object import Json
from tests.e2e.namespaces import CONFINED, SECURITY

FETCH: Json = {"name": "fetch", "deviceClassName": f"fetch-{DRIVER}"}


def wait_for_driver(site: Installation) -> None:
    """Wait until the driver is ready on every node."""
    site.cluster.kubectl("rollout", "status", "daemonset/larder-dra", f"--namespace={NAMESPACE}", "--timeout=240s")


def device_of(site: Installation, model: str) -> str:
    """Return the name of the device of a model."""
    return device_name(model, site.status("ClusterBaseModel", model)["servingRevision"])


def devices(site: Installation, node: str = "") -> dict[str, Json]:
    """Return the published devices by name, of one node or of all."""
    items = site.api.get(SLICES)["items"]
    own = [body for body in items if body["spec"]["driver"] == DRIVER and node in ("", body["spec"].get("nodeName"))]
    return {device["name"]: device for body in own for device in body["spec"].get("devices") or ()}


def exactly(model: str) -> Json:
    """Return the request for a cluster-scoped model."""
    selector = {"cel": {"expression": f'device.attributes["model.larder.dev"].model == "{model}"'}}
    return {"deviceClassName": DRIVER, "selectors": [selector]}


def claim_template(site: Installation, namespace: str, *requests: Json) -> str:
    """Create a template of claims with these requests."""
    name = site.name("claim")
    path = f"{RESOURCES}/namespaces/{namespace}/resourceclaimtemplates"
    spec = {"spec": {"devices": {"requests": list(requests)}}}
    site.api.create(path, {"metadata": {"name": name}, "spec": spec})
    return name


def container(name: str = "main", **fields: object) -> Json:
    """Return a container that sleeps, as `restricted` namespaces accept it."""
    image = {"image": SANDBOX_IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "infinity"]}
    return {"name": name, **image, "securityContext": CONFINED, **fields}


def claiming_spec(template: str, *more: Json, request: str = "") -> Json:
    """Return a pod whose first container has a claim from a template."""
    use = {"name": "m"} | ({"request": request} if request else {})
    return {
        "terminationGracePeriodSeconds": 0,
        "securityContext": SECURITY,
        "resourceClaims": [{"name": "m", "resourceClaimTemplateName": template}],
        "containers": [container(resources={"claims": [use]}), *more],
    }


def claiming_pod(site: Installation, model: str, namespace: str, *more: Json) -> Json:
    """Run a pod that claims a model."""
    template = claim_template(site, namespace, {"name": "model", "exactly": exactly(model)})
    return site.pod(site.name("own"), claiming_spec(template, *more), namespace)


def reads_the_model(site: Installation, pod: Json, model: str) -> None:
    """Check from inside the container: if the runtime ignores devices, nothing else shows it."""
    revision = site.status("ClusterBaseModel", model)["servingRevision"]
    config = site.snapshot("one", model, revision) / "config.json"
    found = site.sh(pod, "sha256sum < $MODEL_PATH/config.json", "main")
    assert found.split()[0] == hashlib.sha256(config.read_bytes()).hexdigest()
