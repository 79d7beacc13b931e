"""Pods on a real node that claim models as devices: kube-scheduler places them, containerd mounts the files."""

from collections.abc import Iterator

import pytest

from rig.hub.faults import Refuse
from rig.node.installation import NAMESPACE, Installation, is_pod_ready
from shared.dra import DRIVER, FETCH_DEVICE, RESOURCES
from shared.json_object import Json
from shared.names import snapshot_path
from tests.e2e.devices.claims import (
    FETCH,
    claim_template,
    claiming_pod,
    claiming_spec,
    container,
    device_of,
    devices,
    exactly,
    reads_the_model,
    wait_for_driver,
)
from tests.e2e.namespaces import SECURITY, namespace_of_level
from tests.readers.metrics import samples

CONTROLLER = {"drainSeconds": 2}


@pytest.fixture(scope="module")
def site_with_driver(site: Installation) -> Iterator[Installation]:
    """The installation with the driver, which is switched off again afterwards."""
    site.install(controller=CONTROLLER, dra={"enabled": True, "metrics": True})
    wait_for_driver(site)
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
    driven.until(lambda: device_of(driven, name) in devices(driven), "the device of the model")
    return name


def _run_on(site: Installation, *argv: str) -> str:
    return site.cluster.machine("one").run(list(argv))


def _cdi_files(site: Installation) -> list[str]:
    return [name for name in _run_on(site, "ls", "/var/run/cdi").split() if name.startswith("model.larder.dev-")]


def test_a_pod_of_a_restricted_namespace_claims_a_model(driven: Installation, model: str) -> None:
    namespace = namespace_of_level(driven, "restricted")
    pod = claiming_pod(driven, model, namespace, container("other"))
    assert pod["spec"]["nodeName"] == "one"
    reads_the_model(driven, pod, model)
    mount = driven.sh(pod, 'grep " $MODEL_PATH " /proc/self/mountinfo', "main").split()[5].split(",")
    assert {"ro", "nosuid", "nodev"} <= set(mount)
    assert driven.sh(pod, "echo $MODEL_ID $MODEL_CACHED $MODEL_PATH_MODEL", "main").split()[:2] == [model, "true"]
    assert driven.sh(pod, "ls /models 2>/dev/null; echo $MODEL_PATH", "other").strip() == ""


def test_root_in_a_container_cannot_change_the_model(driven: Installation, model: str) -> None:
    namespace = namespace_of_level(driven, "privileged")
    template = claim_template(driven, namespace, {"name": "model", "exactly": exactly(model)})
    root = container(resources={"claims": [{"name": "m"}]}, securityContext={"runAsUser": 0})
    spec = claiming_spec(template) | {"containers": [root], "securityContext": {}}
    pod = driven.pod(driven.name("own"), spec, namespace)
    for attempt in ("touch $MODEL_PATH/x", "rm $MODEL_PATH/config.json", "mount -o remount,rw $MODEL_PATH"):
        assert "done" not in driven.sh(pod, f"{attempt} 2>/dev/null && echo done; true", "main")
    reads_the_model(driven, pod, model)


def test_what_is_mounted_below_a_model_does_not_reach_containers(driven: Installation, model: str) -> None:
    """Pitfall 10: a read-only mount does not make mounts below it read-only."""
    namespace = namespace_of_level(driven, "privileged")
    below = f"/var/lib/larder/{snapshot_path(model, driven.status('ClusterBaseModel', model)['servingRevision'])}/below"
    _run_on(driven, "mkdir", below)
    _run_on(driven, "mount", "-t", "tmpfs", "tmpfs", below)
    try:
        template = claim_template(driven, namespace, {"name": "model", "exactly": exactly(model)})
        root = container(resources={"claims": [{"name": "m"}]}, securityContext={"runAsUser": 0})
        spec = claiming_spec(template) | {"containers": [root], "securityContext": {}}
        pod = driven.pod(driven.name("own"), spec, namespace)
        assert driven.sh(pod, "grep -c /below /proc/self/mountinfo; true", "main").strip() == "0"
        assert "done" not in driven.sh(pod, "touch $MODEL_PATH/below/x 2>/dev/null && echo done; true", "main")
        reads_the_model(driven, pod, model)
    finally:
        _run_on(driven, "umount", below)
        _run_on(driven, "rmdir", below)


def test_a_model_can_be_requested_as_an_extended_resource_of_a_container(driven: Installation, model: str) -> None:
    resource = f"model.larder.dev/{model}"
    spec = {"selectors": [{"cel": {"expression": (
        f'device.driver == "model.larder.dev" && device.attributes["model.larder.dev"].model == "{model}"'
    )}}], "extendedResourceName": resource}  # fmt: skip
    driven.api.create(f"{RESOURCES}/deviceclasses", {"metadata": {"name": model}, "spec": spec})
    namespace = namespace_of_level(driven, "restricted")
    main = container(resources={"limits": {resource: "1"}})
    pod = driven.pod(
        driven.name("own"),
        {"terminationGracePeriodSeconds": 0, "securityContext": SECURITY, "containers": [main]},
        namespace,
    )
    reads_the_model(driven, pod, model)
    driven.api.delete(f"{RESOURCES}/deviceclasses/{model}")


def test_alternatives_use_the_cache_or_start_without_it(driven: Installation, model: str) -> None:
    namespace = namespace_of_level(driven, "restricted")

    def started(wanted: str) -> Json:
        cached = exactly(wanted) | {"name": "cached"}
        template = claim_template(driven, namespace, {"name": "model", "firstAvailable": [cached, FETCH]})
        return driven.pod(driven.name("own"), claiming_spec(template, request="model"), namespace)

    claiming_pod(driven, model, namespace)  # now the scheduler knows the device
    reads_the_model(driven, started(model), model)
    without = started("no-such-model")
    assert driven.sh(without, "echo $MODEL_CACHED; echo $MODEL_PATH", "main").split() == ["false"]


@pytest.fixture
def second_node(driven: Installation) -> Iterator[str]:
    """Another node with a driver, which never has the model."""
    driven.cluster.add_node("two")
    driven.until(lambda: devices(driven, "two").keys() == {FETCH_DEVICE}, "the driver of the second node")
    yield "two"
    driven.cluster.remove_node("two")


def test_alternatives_prefer_the_node_with_the_cache(driven: Installation, model: str, second_node: str) -> None:
    namespace = namespace_of_level(driven, "restricted")
    requests = [exactly(model) | {"name": "cached"}, FETCH]

    def started() -> Json:
        template = claim_template(driven, namespace, {"name": "model", "firstAvailable": requests})
        return driven.pod(driven.name("own"), claiming_spec(template, request="model"), namespace)

    driven.cluster.kubectl("cordon", "one")
    try:
        elsewhere = started()
    finally:
        driven.cluster.kubectl("uncordon", "one")
    assert elsewhere["spec"]["nodeName"] == second_node
    assert driven.sh(elsewhere, "echo $MODEL_CACHED", "main").strip() == "false"
    claiming_pod(driven, model, namespace)  # now the scheduler knows the device, and that its node accepts pods
    pods = [started() for _ in range(3)]
    assert [pod["spec"]["nodeName"] for pod in pods] == ["one"] * 3
    for pod in pods:
        reads_the_model(driven, pod, model)


def test_the_health_of_a_device_is_reported_in_the_status_of_its_pod(driven: Installation, model: str) -> None:
    pod = claiming_pod(driven, model, namespace_of_level(driven, "restricted"))
    driven.until(lambda: _health(driven, pod) == {"Healthy"}, "the device to be healthy")
    driven.hub.faults.add(Refuse(503))  # the agent must not repair the files before somebody has looked
    revision = driven.status("ClusterBaseModel", model)["servingRevision"]
    config = driven.snapshot("one", model, revision) / "config.json"
    config.chmod(0o644)
    config.write_text("{}")
    driven.until(lambda: _health(driven, pod) == {"Unhealthy"}, "the damage to be seen")
    driven.hub.faults.clear()
    driven.until(lambda: _health(driven, pod) == {"Healthy"}, "the files to be repaired")


def _health(site: Installation, pod: Json) -> set[str]:
    """Return the health of the devices of a pod, as kubelet reports it."""
    statuses = _current(site, pod)["status"]["containerStatuses"]
    found = [each for status in statuses for each in status.get("allocatedResourcesStatus") or ()]
    assert {each["name"] for each in found} <= {"claim:m"}
    return {resource["health"] for each in found for resource in each["resources"]}


def test_a_pod_waits_for_its_model_and_starts_when_it_is_there(driven: Installation) -> None:
    namespace, name = namespace_of_level(driven, "restricted"), driven.name("later")
    template = claim_template(driven, namespace, {"name": "model", "exactly": exactly(name)})
    pod = driven.name("own")
    body = {"metadata": {"name": pod, "labels": {"app": pod}}, "spec": claiming_spec(template)}
    driven.run("/api/v1/namespaces/{}/pods", body, namespace)
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}"

    def is_unschedulable() -> bool:
        conditions = driven.api.get(path)["status"].get("conditions", [])
        return any(each.get("reason") == "Unschedulable" for each in conditions)

    driven.until(is_unschedulable, "the pod to wait")
    driven.base_model(name=name, nodeSelector={"gpu": "yes"})
    reads_the_model(driven, driven.running(pod, namespace), name)


def test_prepared_claims_survive_restarts_of_driver_and_kubelet(driven: Installation, model: str) -> None:
    """Pitfalls 3 and 4: kubelet deletes slices, and does not prepare a claim again that it considers prepared."""
    namespace = namespace_of_level(driven, "restricted")
    template = claim_template(driven, namespace, {"name": "model", "exactly": exactly(model)})
    spec = claiming_spec(template)
    spec["containers"][0]["command"] = ["sh", "-c", "until [ -e /tmp/end ]; do sleep 1; done"]
    pod = driven.pod(driven.name("own"), spec, namespace)
    name = _cdi_file(driven, pod)
    driven.until(lambda: _cdi_files(driven) == [name], "the files of pods that were deleted at once to go")
    for old in driven.pods("app.kubernetes.io/component=dra"):
        driven.delete_pod(old, 0)
    _run_on(driven, "rm", f"/var/run/cdi/{name}")
    driven.until(lambda: _cdi_files(driven) == [name], "the file of the claim")
    wait_for_driver(driven)
    driven.sh(pod, "touch /tmp/end", "main")
    driven.until(lambda: _restarts(driven, pod) > 0, "the container to start again")
    driven.until(lambda: is_pod_ready(_current(driven, pod)), "the pod to be ready again")
    reads_the_model(driven, pod, model)

    driven.cluster.restart_kubelet("one")
    driven.until(lambda: device_of(driven, model) in devices(driven), "the device after the restart")
    reads_the_model(driven, pod, model)
    again = claiming_pod(driven, model, namespace)
    reads_the_model(driven, again, model)
    for each in (pod, again):
        driven.delete_pod(each, 0)
    driven.until(lambda: not _cdi_files(driven), "the files of the claims to go")


def _cdi_file(site: Installation, pod: Json) -> str:
    """Return the name of the file of a pod's only claim."""
    (made,) = _current(site, pod)["status"]["resourceClaimStatuses"]
    path = f"{RESOURCES}/namespaces/{pod['metadata']['namespace']}/resourceclaims/{made['resourceClaimName']}"
    return f"{DRIVER}-{site.api.get(path)['metadata']['uid']}.json"


def _current(site: Installation, pod: Json) -> Json:
    meta = pod["metadata"]
    return site.api.get(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}")


def _restarts(site: Installation, pod: Json) -> int:
    return sum(each["restartCount"] for each in _current(site, pod)["status"]["containerStatuses"])


def test_the_metrics_of_the_driver_count_a_prepared_claim(driven: Installation, model: str) -> None:
    claiming_pod(driven, model, namespace_of_level(driven, "restricted"))
    (pod,) = driven.pods("app.kubernetes.io/component=dra")
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}:8082/proxy/metrics"
    shown = samples(driven.cluster.kubectl("get", "--raw", path))
    assert shown["larder_dra_claims_prepared"] >= 1
    assert shown['larder_dra_devices_published{state="available"}'] >= 1
    assert shown['larder_dra_claim_duration_seconds_count{outcome="answered",verb="prepare"}'] >= 1


def test_the_last_use_of_a_model_is_recorded_when_its_claim_ends(driven: Installation, model: str) -> None:
    pod = claiming_pod(driven, model, namespace_of_level(driven, "restricted"))
    driven.until(lambda: driven.entries("one", model)[0].get("inUse", False), "the use to be seen")
    assert "lastUsed" not in driven.entries("one", model)[0]
    driven.delete_pod(pod)
    driven.until(lambda: "lastUsed" in driven.entries("one", model)[0], "the end of the use to be recorded")
    assert not driven.entries("one", model)[0].get("inUse")


def test_a_claimed_model_is_in_use_until_its_pod_has_gone(driven: Installation, model: str) -> None:
    """Pitfall 11: nothing in Kubernetes protects the directory."""
    namespace = namespace_of_level(driven, "restricted")
    pod = claiming_pod(driven, model, namespace)
    user = f"{namespace}/{pod['metadata']['name']}"
    device = device_of(driven, model)
    driven.delete("ClusterBaseModel", model)
    driven.until(lambda: any(e.get("inUse") for e in driven.entries("one", model)), "its user to be seen")
    driven.until(lambda: user in driven.ready_condition("ClusterBaseModel", model)["message"], "its user to be named")
    assert driven.sh(pod, "cat $MODEL_PATH/config.json", "main")
    driven.delete_pod(pod, 0)
    driven.until(lambda: driven.is_gone("ClusterBaseModel", model), "the model to go with its last user")
    driven.until(lambda: device not in devices(driven), "the device to go")
