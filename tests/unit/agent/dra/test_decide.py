from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agent.dra.decide import PreparationView, allocate_requests, held_devices, models_of
from agent.dra.devices import DiskSnapshot
from agent.dra.errors import PrepareRefused
from agent.dra.kubelet_claim import KubeletClaim
from shared.api.model_node import Entry, EntryState
from shared.devices.annotation import encode_pod_info
from shared.devices.info import ContainerInfo, PodInfo
from shared.dra import (
    AllocatedDevice,
    AllocatedDevices,
    ClaimConsumer,
    ResourceAllocation,
    ResourceClaim,
    ResourceClaimStatus,
)
from shared.kube.objects import Meta

MODEL = DiskSnapshot("qwen", "r", "/store/models/qwen/r")
REF = KubeletClaim("team-a", "c", "u1")


def _device(request: str = "model", model: DiskSnapshot = MODEL, pool: str = "n") -> AllocatedDevice:
    return AllocatedDevice(request=request, driver="model.larder.dev", pool=pool, device=model.device)


def _claim(*results: AllocatedDevice, owner: str = "p1", users: Sequence[str] = ("p1",)) -> ResourceClaim:
    allocation = ResourceAllocation(devices=AllocatedDevices(results=list(results)))
    owners = [{"kind": "Pod", "uid": owner, "controller": True}] if owner else []
    return ResourceClaim(
        metadata=Meta(namespace=REF.namespace, name=REF.name, uid=REF.uid, owner_references=owners),
        status=ResourceClaimStatus(
            allocation=allocation,
            reserved_for=[ClaimConsumer(resource="pods", name=f"pod-{uid}", uid=uid) for uid in users],
        ),
    )


def _view(model: DiskSnapshot = MODEL, state: str = EntryState.PRESENT, **fields: Any) -> PreparationView:
    entry = Entry(id=model.id, revision=model.revision, state=state)
    view = PreparationView(REF, "n", _claim(_device(model=model)), [], {entry.key: entry}, {model.device: model})
    return replace(view, **fields)


def _refusal(view: PreparationView) -> str:
    with pytest.raises(PrepareRefused) as caught:
        models_of(view, held_devices(view))
    return str(caught.value)


def test_a_claim_gets_its_model_while_that_is_present_or_draining() -> None:
    for state in (EntryState.PRESENT, EntryState.DRAINING):
        view = _view(state=state)
        assert models_of(view, held_devices(view)) == {MODEL.device: MODEL}


def test_only_devices_of_this_node_and_driver_count() -> None:
    other = AllocatedDevice(request="gpu", driver="gpu.example.org", pool="n", device="g0")
    view = _view(claim=_claim(other, _device(pool="m"), _device()))
    assert held_devices(view) == [_device()]
    assert "holds no model" in _refusal(_view(claim=_claim(other)))


def test_a_deleted_or_replaced_claim_is_refused() -> None:
    assert "no longer exists" in _refusal(_view(claim=None))
    claim = _claim(_device())
    assert "was replaced" in _refusal(_view(claim=claim, ref=REF._replace(uid="u2")))


def test_a_missing_leaving_or_damaged_model_is_refused() -> None:
    assert "no longer on node n" in _refusal(_view(held={}))
    assert "is being removed" in _refusal(_view(state=EntryState.ABSENT))
    assert "is being removed" in _refusal(_view(entries={}))
    assert "damaged files: 1" in _refusal(_view(replace(MODEL, damaged=("a",))))


def test_a_private_model_is_refused_to_claims_of_other_namespaces() -> None:
    own, foreign = replace(MODEL, id="team-a_qwen"), replace(MODEL, id="team-b_qwen")
    assert models_of(_view(own), [_device(model=own)]) == {own.device: own}
    assert "belongs to namespace team-b" in _refusal(_view(foreign))


def _pod(info: PodInfo | str, *containers: str, uid: str = "p1") -> dict[str, Any]:
    text = info if isinstance(info, str) else encode_pod_info(info)
    uses = [{"name": name, "resources": {"claims": [{"name": "m"}]}} for name in containers]
    return {
        "metadata": {"name": f"pod-{uid}", "uid": uid, "annotations": {"KubeDevice/DeviceInfo": text}},
        "spec": {"resourceClaims": [{"name": "m", "resourceClaimName": REF.name}], "containers": uses},
    }


GIVEN = ContainerInfo(requests={"gpu": 1}, allocate_from={"gpu": "gpu/3"})


def _asked(*pods: dict[str, Any], owner: str = "p1", users: Sequence[str] = ("p1",)) -> list[tuple[int, str]]:
    view = _view(claim=_claim(_device(), owner=owner, users=users), pods=pods)
    return [(each.index, each.container) for each in allocate_requests(view, [_device()])]


def test_plugins_are_asked_for_a_container_with_devices_on_this_node() -> None:
    given = {"main": GIVEN}
    assert _asked(_pod(PodInfo(node_name="n", running_containers=given), "main")) == [(0, "main")]
    assert _asked(_pod(PodInfo(node_name="n", init_containers=given), "main")) == [(0, "main")]


def test_plugins_are_not_asked_without_an_allocation_for_this_container_and_node() -> None:
    asked = {"main": ContainerInfo(requests={"gpu": 1})}
    assert _asked(_pod(PodInfo(node_name="n", running_containers=asked), "main")) == []
    assert _asked(_pod(PodInfo(node_name="m", running_containers={"main": GIVEN}), "main")) == []
    assert _asked(_pod(PodInfo(node_name="n", running_containers={"other": GIVEN}), "main")) == []
    assert list(allocate_requests(_view(), [_device()])) == []


def test_a_container_without_a_request_of_its_own_is_refused_the_devices_of_another() -> None:
    pod = _pod(PodInfo(node_name="n", running_containers={"main": GIVEN}), "main", "sidecar")
    with pytest.raises(PrepareRefused, match="a request of its own"):
        _asked(pod)


@pytest.mark.parametrize("owner", ["", "p2"])
def test_a_pod_with_devices_is_refused_a_claim_that_other_pods_can_share(owner: str) -> None:
    """Kubelet prepares a claim once: a second pod would get the devices of the first."""
    given = PodInfo(node_name="n", running_containers={"main": GIVEN})
    with pytest.raises(PrepareRefused, match=r"main of pod pod-p1 .* resourceClaimTemplateName"):
        _asked(_pod(given, "main"), owner=owner)
    without = _pod(PodInfo(node_name="n"), "main", uid="p2")
    with pytest.raises(PrepareRefused, match="resourceClaimTemplateName"):
        _asked(without, _pod(given, "main"), owner=owner)
    assert _asked(without, _pod(given, "other"), owner=owner) == []


def test_a_pod_with_devices_is_refused_its_own_claim_while_another_pod_uses_it() -> None:
    """The other pod may have come before the claim had an owner, or be gone from the API server but not the node."""
    given = PodInfo(node_name="n", running_containers={"main": GIVEN})
    with pytest.raises(PrepareRefused, match="resourceClaimTemplateName"):
        _asked(_pod(given, "main"), users=["p1", "p2"])


def test_a_malformed_annotation_is_refused() -> None:
    with pytest.raises(PrepareRefused, match="KubeDevice/DeviceInfo"):
        _asked(_pod("{", "main"))
