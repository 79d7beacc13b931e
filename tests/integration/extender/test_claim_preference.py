"""larder-scheduler and claims with alternatives: the node with the cache wins over other preferences."""

from collections.abc import Iterator

import pytest

from rig.larder.site import Site
from rig.pods import plain_pod
from shared.devices.scheduler import SCHEDULER_NAME
from shared.dra import DEVICE_CLASSES, DRIVER, FETCH_DEVICE, RESOURCES, SLICES
from shared.json_object import Json
from tests.integration.extender.conftest import AddNode

_TEMPLATES = f"{RESOURCES}/namespaces/default/resourceclaimtemplates"


def slice_of(node: str, *devices: str) -> Json:
    """Return what the driver of a node publishes: shareable devices."""
    shared = [{"name": name, "allowMultipleAllocations": True} for name in devices]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": shared}
    return {"metadata": {"name": f"{node}-models"}, "spec": spec}


@pytest.fixture
def classes(site: Site) -> Iterator[tuple[str, str]]:
    """Two classes of devices: the cached model, and the device without a model."""
    cached, fetch = site.name("cached"), site.name("fetch")
    for name, negation in ((cached, ""), (fetch, "!")):
        expression = f'device.driver == "{DRIVER}" && {negation}has(device.attributes["{DRIVER}"].model)'
        site.api.create(
            DEVICE_CLASSES, {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
        )
    yield cached, fetch
    for name in (cached, fetch):
        site.api.delete(f"{DEVICE_CLASSES}/{name}")


def claiming(site: Site, request: Json, **spec: object) -> str:
    """Create a pod of our scheduler with a claim for one request, and return its name."""
    template, body = site.name("claim"), plain_pod(site.name("pod"))
    site.api.create(
        _TEMPLATES, {"metadata": {"name": template}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    )
    body["spec"] |= {
        "schedulerName": SCHEDULER_NAME,
        "resourceClaims": [{"name": "m", "resourceClaimTemplateName": template}],
        **spec,
    }
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "m"}]}
    return str(site.pod(body)["metadata"]["name"])


def node_of(site: Site, pod: str) -> str:
    site.until(lambda: site.pod_node(pod) != "", "the pod to be bound")
    return site.pod_node(pod)


def test_the_node_with_the_first_alternative_wins_despite_a_taint(
    site: Site, add_node: AddNode, classes: tuple[str, str]
) -> None:
    cached, fetch = classes
    with_cache, without = add_node({}), add_node({})
    path = f"/api/v1/nodes/{with_cache}"
    site.until(lambda: not site.api.get(path)["spec"].get("taints"), "the node to be Ready")
    site.api.patch(path, {"spec": {"taints": [{"key": "rig/avoid", "effect": "PreferNoSchedule"}]}})
    found = slice_of(with_cache, FETCH_DEVICE, "qwen")
    found["spec"]["devices"][1]["attributes"] = {"model": {"string": "qwen"}}
    for body in (found, slice_of(without, FETCH_DEVICE)):
        site.api.create(SLICES, body)
    # Once these pods are bound, the scheduler knows both slices.
    for node, device_class in ((with_cache, cached), (without, fetch)):
        request = {"name": "model", "exactly": {"deviceClassName": device_class}}
        pod = claiming(site, request, nodeSelector={"kubernetes.io/hostname": node})
        assert node_of(site, pod) == node
    alternatives = [{"name": "cached", "deviceClassName": cached}, {"name": "fetch", "deviceClassName": fetch}]
    pods = [claiming(site, {"name": "model", "firstAvailable": alternatives}) for _ in range(3)]
    assert {node_of(site, pod) for pod in pods} == {with_cache}
    for node in (with_cache, without):
        site.api.delete(f"{SLICES}/{node}-models")
