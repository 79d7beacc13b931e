"""Pods on a real node that claim models as devices: kube-scheduler places them, containerd mounts the files."""

import hashlib
from collections.abc import Iterator

import pytest

from rig.larder.cluster_driver import Json
from rig.node.containerd import SANDBOX_IMAGE
from rig.node.installation import NAMESPACE, Installation, is_pod_ready
from shared.model_devices import RESOURCES, SLICES, device_name
from tests.e2e.namespaces import CONFINED, SECURITY, namespace_of_level

CONTROLLER = {"drainSeconds": 2}
_GONE_S = 120.0


@pytest.fixture(scope="module")
def site_with_driver(site: Installation) -> Iterator[Installation]:
    """The installation with the driver, which is switched off again afterwards."""
    site.install(controller=CONTROLLER, dra={"enabled": True})
    _wait_for_driver(site)
    yield site
    site.install(controller=CONTROLLER)


@pytest.fixture
def driven(site_with_driver: Installation, site: Installation) -> Installation:
    """The installation with the driver; `site` has workloads removed after each test."""
    assert site is site_with_driver
    return site


@pytest.fixture
def model(driven: Installation) -> str:
    """A model on node `one`, published."""
    name = driven.base_model(nodeSelector={"gpu": "yes"})
    driven.wait_ready("ClusterBaseModel", name)
    driven.until(lambda: _device(driven, name) in _devices(driven), "the device of the model")
    return name


def _wait_for_driver(site: Installation) -> None:
    site.cluster.kubectl("rollout", "status", "daemonset/larder-dra", f"--namespace={NAMESPACE}", "--timeout=240s")


def _device(site: Installation, model: str) -> str:
    return device_name(model, site.status("ClusterBaseModel", model)["servingRevision"])


def _devices(site: Installation) -> dict[str, Json]:
    items = site.api.get(SLICES)["items"]
    return {device["name"]: device for body in items for device in body["spec"].get("devices") or ()}


def _exactly(model: str) -> Json:
    selector = {"cel": {"expression": f'device.attributes["model.larder.dev"].model == "{model}"'}}
    return {"deviceClassName": "model.larder.dev", "selectors": [selector]}


def _template(site: Installation, namespace: str, *requests: Json) -> str:
    """Create a template of claims with these requests."""
    name = site.name("claim")
    path = f"{RESOURCES}/namespaces/{namespace}/resourceclaimtemplates"
    spec = {"spec": {"devices": {"requests": list(requests)}}}
    site.api.create(path, {"metadata": {"name": name}, "spec": spec})
    return name


def _container(name: str = "main", **fields: object) -> Json:
    image = {"image": SANDBOX_IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "infinity"]}
    return {"name": name, **image, "securityContext": CONFINED, **fields}


def _spec(template: str, *more: Json, request: str = "") -> Json:
    """Return a pod whose first container has a claim from a template."""
    use = {"name": "m"} | ({"request": request} if request else {})
    return {
        "terminationGracePeriodSeconds": 0,
        "securityContext": SECURITY,
        "resourceClaims": [{"name": "m", "resourceClaimTemplateName": template}],
        "containers": [_container(resources={"claims": [use]}), *more],
    }


def _claiming(site: Installation, model: str, namespace: str, *more: Json) -> Json:
    """Run a pod that claims a model."""
    template = _template(site, namespace, {"name": "model", "exactly": _exactly(model)})
    return site.pod(site.name("own"), _spec(template, *more), namespace)


def _reads_the_model(site: Installation, pod: Json, model: str) -> None:
    """Look from inside the container: where the runtime ignores devices, everything else looks right."""
    revision = site.status("ClusterBaseModel", model)["servingRevision"]
    config = site.snapshot("one", model, revision) / "config.json"
    found = site.sh(pod, "sha256sum < $MODEL_PATH/config.json", "main")
    assert found.split()[0] == hashlib.sha256(config.read_bytes()).hexdigest()


def _run_on(site: Installation, *argv: str) -> str:
    return site.cluster.machine("one").run(list(argv))


def _cdi_files(site: Installation) -> list[str]:
    return [name for name in _run_on(site, "ls", "/var/run/cdi").split() if name.startswith("model.larder.dev-")]


def test_a_pod_of_a_restricted_namespace_claims_a_model(driven: Installation, model: str) -> None:
    namespace = namespace_of_level(driven, "restricted")
    pod = _claiming(driven, model, namespace, _container("other"))
    assert pod["spec"]["nodeName"] == "one"
    _reads_the_model(driven, pod, model)
    mount = driven.sh(pod, 'grep " $MODEL_PATH " /proc/self/mountinfo', "main").split()[5].split(",")
    assert {"ro", "nosuid", "nodev"} <= set(mount)
    assert driven.sh(pod, "echo $MODEL_ID $MODEL_CACHED $MODEL_PATH_MODEL", "main").split()[:2] == [model, "true"]
    assert driven.sh(pod, "ls /models 2>/dev/null; echo $MODEL_PATH", "other").strip() == ""


def test_root_in_a_container_changes_nothing(driven: Installation, model: str) -> None:
    namespace = namespace_of_level(driven, "privileged")
    template = _template(driven, namespace, {"name": "model", "exactly": _exactly(model)})
    root = _container(resources={"claims": [{"name": "m"}]}, securityContext={"runAsUser": 0})
    spec = _spec(template) | {"containers": [root], "securityContext": {}}
    pod = driven.pod(driven.name("own"), spec, namespace)
    for attempt in ("touch $MODEL_PATH/x", "rm $MODEL_PATH/config.json", "mount -o remount,rw $MODEL_PATH"):
        assert "done" not in driven.sh(pod, f"{attempt} 2>/dev/null && echo done; true", "main")
    _reads_the_model(driven, pod, model)


def test_the_short_form_is_a_resource_of_the_container(driven: Installation, model: str) -> None:
    resource = f"model.larder.dev/{model}"
    spec = {"selectors": [{"cel": {"expression": (
        f'device.driver == "model.larder.dev" && device.attributes["model.larder.dev"].model == "{model}"'
    )}}], "extendedResourceName": resource}  # fmt: skip
    driven.api.create(f"{RESOURCES}/deviceclasses", {"metadata": {"name": model}, "spec": spec})
    namespace = namespace_of_level(driven, "restricted")
    container = _container(resources={"limits": {resource: "1"}})
    pod = driven.pod(
        driven.name("own"),
        {"terminationGracePeriodSeconds": 0, "securityContext": SECURITY, "containers": [container]},
        namespace,
    )
    _reads_the_model(driven, pod, model)
    driven.api.delete(f"{RESOURCES}/deviceclasses/{model}")


def test_alternatives_take_the_cache_and_do_without_it(driven: Installation, model: str) -> None:
    namespace = namespace_of_level(driven, "restricted")

    def started(wanted: str) -> Json:
        cached = _exactly(wanted) | {"name": "cached"}
        fetch = {"name": "fetch", "deviceClassName": "fetch-model.larder.dev"}
        template = _template(driven, namespace, {"name": "model", "firstAvailable": [cached, fetch]})
        return driven.pod(driven.name("own"), _spec(template, request="model"), namespace)

    _claiming(driven, model, namespace)  # now the scheduler knows the device
    _reads_the_model(driven, started(model), model)
    without = started("no-such-model")
    assert driven.sh(without, "echo $MODEL_CACHED; echo $MODEL_PATH", "main").split() == ["false"]


def test_a_pod_waits_for_its_model_and_starts_when_it_is_there(driven: Installation) -> None:
    namespace, name = namespace_of_level(driven, "restricted"), driven.name("later")
    template = _template(driven, namespace, {"name": "model", "exactly": _exactly(name)})
    pod = driven.name("own")
    body = {"metadata": {"name": pod, "labels": {"app": pod}}, "spec": _spec(template)}
    driven.run("/api/v1/namespaces/{}/pods", body, namespace)
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}"

    def is_unschedulable() -> bool:
        conditions = driven.api.get(path)["status"].get("conditions", [])
        return any(each.get("reason") == "Unschedulable" for each in conditions)

    driven.until(is_unschedulable, "the pod to wait")
    driven.base_model(name=name, nodeSelector={"gpu": "yes"})
    _reads_the_model(driven, driven.running(pod, namespace), name)


def test_prepared_claims_survive_driver_and_kubelet(driven: Installation, model: str) -> None:
    """Pitfalls 3 and 4: kubelet wipes slices, and never writes again what it believes to be prepared."""
    namespace = namespace_of_level(driven, "restricted")
    template = _template(driven, namespace, {"name": "model", "exactly": _exactly(model)})
    spec = _spec(template)
    spec["containers"][0]["command"] = ["sh", "-c", "until [ -e /tmp/end ]; do sleep 1; done"]
    pod = driven.pod(driven.name("own"), spec, namespace)
    (name,) = _cdi_files(driven)
    for old in driven.pods("app.kubernetes.io/component=dra"):
        driven.delete_pod(old, 0)
    _run_on(driven, "rm", f"/var/run/cdi/{name}")
    driven.until(lambda: _cdi_files(driven) == [name], "the file of the claim")
    _wait_for_driver(driven)
    driven.sh(pod, "touch /tmp/end", "main")
    driven.until(lambda: _restarts(driven, pod) > 0, "the container to start again")
    driven.until(lambda: is_pod_ready(_current(driven, pod)), "the pod to be ready again")
    _reads_the_model(driven, pod, model)

    driven.cluster.restart_kubelet("one")
    driven.until(lambda: _device(driven, model) in _devices(driven), "the device after the restart")
    _reads_the_model(driven, pod, model)
    again = _claiming(driven, model, namespace)
    _reads_the_model(driven, again, model)
    for each in (pod, again):
        driven.delete_pod(each, 0)
    driven.until(lambda: not _cdi_files(driven), "the files of the claims to go")


def _current(site: Installation, pod: Json) -> Json:
    meta = pod["metadata"]
    return site.api.get(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}")


def _restarts(site: Installation, pod: Json) -> int:
    return sum(each["restartCount"] for each in _current(site, pod)["status"]["containerStatuses"])


def test_a_claimed_model_is_in_use_until_its_pod_has_gone(driven: Installation, model: str) -> None:
    """Pitfall 11: nothing in Kubernetes protects the directory."""
    namespace = namespace_of_level(driven, "restricted")
    pod = _claiming(driven, model, namespace)
    user = f"{namespace}/{pod['metadata']['name']}"
    device = _device(driven, model)
    driven.delete("ClusterBaseModel", model)
    driven.until(lambda: any(e.get("inUse") for e in driven.entries("one", model)), "its user to be seen")
    driven.until(lambda: user in driven.ready_condition("ClusterBaseModel", model)["message"], "its user to be named")
    assert driven.sh(pod, "cat $MODEL_PATH/config.json", "main")
    driven.delete_pod(pod, 0)
    driven.until(lambda: driven.is_gone("ClusterBaseModel", model), "the model to go with its last user", _GONE_S)
    driven.until(lambda: device not in _devices(driven), "the device to go")
