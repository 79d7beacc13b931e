"""What the controller's token may do with pods, tried on a real API server."""

from collections.abc import Iterator
from typing import Any

import pytest

from controller.replica_claims.gate import CLAIMS_GATE
from rig.api import MERGE, Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.pods import plain_pod
from rig.processes import wait_until
from shared.json_object import Json
from tests.chart.conftest import NAMESPACE

_PODS = "/api/v1/namespaces/default/pods"
_GATE, _OTHER = {"name": "larder.dev/model"}, {"name": "example.org/quota"}
_CLAIMS_GATE = {"name": CLAIMS_GATE}
_ASKS = {"larder.dev/on-missing": "fail"}
_MISSING = {"type": "larder.dev/ModelMissing", "status": "True", "reason": "ModelMissing", "message": "m"}
_ENDED: dict[str, Any] = {"phase": "Failed", "reason": "ModelMissing", "conditions": [_MISSING]}


@pytest.fixture(scope="module")
def controller(api: Api, plane: ControlPlane) -> Iterator[Api]:
    """A client with a token of the controller, once the policy is in force."""
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    token = api.create(f"{accounts}/larder-controller/token", {"spec": {}})["status"]["token"]
    client = plane.api_with_token(str(token))
    create(api, "probe")
    wait_until(lambda: "metadata" in refusal(client, "probe", {"metadata": {"labels": {"a": "b"}}}), 60, "the policy")
    yield client
    api.delete(f"{_PODS}/probe", grace_s=0)
    client.close()


def create(api: Api, name: str, gates: list[Json] | None = None, annotations: Json | None = None) -> None:
    pod = plain_pod(name, annotations)
    if gates is not None:
        pod["spec"]["schedulingGates"] = gates
    api.create(_PODS, pod)


@pytest.fixture
def gated(api: Api) -> Iterator[str]:
    create(api, "gated", [_GATE, _OTHER], _ASKS)
    yield "gated"
    api.delete(f"{_PODS}/gated", grace_s=0)


@pytest.fixture
def plain(api: Api) -> Iterator[str]:
    create(api, "plain", [_OTHER])
    yield "plain"
    api.delete(f"{_PODS}/plain", grace_s=0)


def refusal(client: Api, name: str, change: Json, part: str = "") -> str:
    """Return the reason for the refusal of a change, or an empty string; nothing is stored."""
    try:
        client.call("PATCH", f"{_PODS}/{name}{part}?dryRun=All", change, MERGE)
    except CallRefused as refused:
        return str(refused)
    return ""


def test_the_controller_may_remove_its_gate(controller: Api, gated: str) -> None:
    assert refusal(controller, gated, {"spec": {"schedulingGates": [_OTHER]}}) == ""


def test_the_controller_may_remove_either_of_its_gates_but_not_foreign_ones(api: Api, controller: Api) -> None:
    create(api, "both", [_GATE, _CLAIMS_GATE, _OTHER])
    for left in ([_GATE, _OTHER], [_CLAIMS_GATE, _OTHER]):
        assert refusal(controller, "both", {"spec": {"schedulingGates": left}}) == ""
    assert "only remove the scheduling gate" in refusal(controller, "both", {"spec": {"schedulingGates": [_GATE]}})
    api.delete(f"{_PODS}/both", grace_s=0)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"spec": {"schedulingGates": None}}, "only remove the scheduling gate"),
        ({"spec": {"schedulingGates": [_GATE]}}, "only remove the scheduling gate"),
        ({"spec": {"schedulingGates": [_OTHER], "nodeSelector": {"a": "b"}}}, "except its scheduling gates"),
        ({"spec": {"schedulingGates": [_OTHER], "activeDeadlineSeconds": 1}}, "except its scheduling gates"),
        ({"spec": {"schedulingGates": [_OTHER]}, "metadata": {"annotations": {"a": "b"}}}, "metadata"),
        ({"metadata": {"ownerReferences": []}}, "only remove the scheduling gate"),
    ],
    ids=str,
)
def test_any_other_change_of_a_gated_pod_is_refused(controller: Api, gated: str, change: Json, why: str) -> None:
    assert why in refusal(controller, gated, change)


def test_removing_a_gate_cannot_also_change_tolerations_or_images(api: Api, controller: Api, gated: str) -> None:
    spec = api.get(f"{_PODS}/{gated}")["spec"]
    for change in (
        {"tolerations": [*spec["tolerations"], {"operator": "Exists"}]},
        {"containers": [spec["containers"][0] | {"image": "evil"}]},
    ):
        assert "except its scheduling gates" in refusal(
            controller, gated, {"spec": {"schedulingGates": [_OTHER]} | change}
        )


def test_a_pod_without_our_gate_cannot_be_changed(controller: Api, plain: str) -> None:
    assert "only remove the scheduling gate" in refusal(controller, plain, {"spec": {"schedulingGates": None}})
    assert "only remove the scheduling gate" in refusal(controller, plain, {"spec": {"activeDeadlineSeconds": 1}})


def test_the_controller_may_fail_a_gated_pod_that_opted_in(api: Api, controller: Api, gated: str) -> None:
    before = api.get(f"{_PODS}/{gated}")["status"].get("conditions", [])
    ended = _ENDED | {"conditions": [*before, _MISSING]}
    noted = {"annotations": {"larder.dev/ended": "now"}}
    assert "metadata" in refusal(controller, gated, {"metadata": noted})
    api.patch(f"{_PODS}/{gated}", {"metadata": {"annotations": {"larder.dev/ended": "of the pod it was copied from"}}})
    assert refusal(controller, gated, {"status": ended, "metadata": noted}, "/status") == ""


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Succeeded"},
        {"phase": "Running"},
        {"conditions": []},
        {"conditions": [_MISSING | {"status": "False"}]},
        {"conditions": [_MISSING, {"type": "Ready", "status": "True"}]},
        {"podIPs": [{"ip": "10.0.0.1"}], "podIP": "10.0.0.1"},
    ],
    ids=str,
)
def test_other_status_changes_of_a_gated_pod_are_refused(api: Api, controller: Api, gated: str, status: Json) -> None:
    before = api.get(f"{_PODS}/{gated}")["status"].get("conditions", [])
    ended = _ENDED | {"conditions": [*before, _MISSING]} | status
    assert "may only change a pod's status to Failed with the condition" in refusal(
        controller, gated, {"status": ended}, "/status"
    )


def test_pods_that_run_or_did_not_opt_in_cannot_be_failed(api: Api, controller: Api, plain: str, gated: str) -> None:
    assert "only fail pods that are Pending" in refusal(controller, plain, {"status": _ENDED}, "/status")
    api.patch(f"{_PODS}/{gated}/status", {"status": {"phase": "Running"}})
    assert "only fail pods that are Pending" in refusal(controller, gated, {"status": _ENDED}, "/status")
    ended = {"status": _ENDED, "metadata": {"annotations": _ASKS}}
    assert "metadata" in refusal(controller, plain, ended, "/status")


def test_the_controller_cannot_delete_evict_or_exec_into_a_pod(controller: Api, gated: str) -> None:
    for method, path in (("DELETE", gated), ("POST", f"{gated}/eviction"), ("POST", f"{gated}/exec")):
        with pytest.raises(CallRefused, match="403"):
            controller.call(method, f"{_PODS}/{path}", None if method == "DELETE" else {})
