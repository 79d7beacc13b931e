"""A real kube-scheduler allocates ResourceClaims, and Larder does not bind pods whose devices would get lost."""

from collections.abc import Iterator

import pytest

from rig.larder.site import Site
from shared.dra import DEVICE_CLASSES, DRIVER, RESOURCES, SLICES, resource_claims_in
from shared.json_object import Json
from tests.builders.devices import card
from tests.integration.extender.asking_pods import asking, is_bound
from tests.integration.extender.conftest import AddNode

_CLAIMS = resource_claims_in("default")
_TEMPLATES = f"{RESOURCES}/namespaces/default/resourceclaimtemplates"
_MODEL: Json = {"devices": {"requests": [{"name": "model", "exactly": {"deviceClassName": DRIVER}}]}}
_USED: Json = {"containers": [{"name": "main", "image": "i", "resources": {"claims": [{"name": "m"}]}}]}


@pytest.fixture
def node(site: Site, add_node: AddNode) -> Iterator[str]:
    """A node with two cards and two models, as its agent and its driver publish them."""
    name = add_node({card("a"): 1, card("b"): 1})
    uid = site.get("Node", name)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "one"}, {"name": "two"}]
    site.api.create(SLICES, {
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices},
    })  # fmt: skip
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    site.api.create(DEVICE_CLASSES, {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}})
    yield name
    site.api.delete(f"{DEVICE_CLASSES}/{DRIVER}")


def test_a_pod_with_devices_waits_until_its_claim_is_its_own(site: Site, node: str) -> None:
    claim, template = site.name("claim"), site.name("template")
    site.api.create(_CLAIMS, {"metadata": {"name": claim}, "spec": _MODEL})
    site.api.create(_TEMPLATES, {"metadata": {"name": template}, "spec": {"spec": _MODEL}})
    sharing = asking(site, resourceClaims=[{"name": "m", "resourceClaimName": claim}], **_USED)
    refused = f"container main requests devices, which cannot be added to ResourceClaim {claim}"
    site.until(lambda: any(refused in event["message"] for event in site.events(sharing)), "the reason in an Event")
    assert not is_bound(site, sharing)

    alone = asking(site, resourceClaims=[{"name": "m", "resourceClaimTemplateName": template}], **_USED)
    site.until(lambda: is_bound(site, alone), "the pod with a claim of its own to be bound")
    assert site.pod_node(alone) == node
