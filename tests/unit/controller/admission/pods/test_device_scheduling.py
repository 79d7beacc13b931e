"""Pods with devices go to our scheduler, and only pods of ours to the extender."""

import json
from typing import Any

import jsonpatch
import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.errors import InvalidRequest
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.settings import AdmissionSettings
from shared.devices.annotation import ANNOTATION, MAX_REQUEST_BYTES
from shared.devices.scheduler import DEVICES_RESOURCE, SCHEDULER_NAME
from tests.builders.devices import CARD

_ON = AdmissionSettings(scheduler=True)
_ASKS = json.dumps({"runningcontainer": {"main": {"requests": {CARD: 1}}}})


def pod(annotation: str | None = _ASKS, scheduler: str | None = "default-scheduler", **spec: Any) -> dict[str, Any]:
    annotations = {} if annotation is None else {ANNOTATION: annotation}
    body = {"containers": [{"name": "main"}, {"name": "side"}], "schedulerName": scheduler} | spec
    return {"metadata": {"name": "p", "annotations": annotations}, "spec": body}


def changed(before: dict[str, Any], settings: AdmissionSettings = _ON) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the spec after admission, and the warnings; a second pass changes nothing."""
    found = pod_changes(before, "default", MemoryCatalog(), settings)
    assert all(change["op"] in {"add", "replace"} for change in found.patch)
    after = jsonpatch.apply_patch(before, list(found.patch))
    assert pod_changes(after, "default", MemoryCatalog(), settings).patch == ()
    return after["spec"], found.warnings


def test_a_pod_that_requests_devices_gets_our_scheduler_and_the_request() -> None:
    for scheduler in ("default-scheduler", None, SCHEDULER_NAME):
        spec, warnings = changed(pod(scheduler=scheduler))
        assert spec["schedulerName"] == SCHEDULER_NAME
        assert spec["containers"][0]["resources"] == {key: {DEVICES_RESOURCE: "1"} for key in ("limits", "requests")}
        assert spec["containers"][1] == {"name": "side"}
        assert warnings == ()


def test_a_pod_that_names_our_scheduler_gets_the_device_request_beside_its_own_resources() -> None:
    has = {"resources": {"limits": {"cpu": "2"}, "claims": []}}
    spec, _ = changed(pod(None, SCHEDULER_NAME, containers=[{"name": "main"} | has]))
    resources = spec["containers"][0]["resources"]
    assert resources == {
        "limits": {"cpu": "2", DEVICES_RESOURCE: "1"},
        "requests": {DEVICES_RESOURCE: "1"},
        "claims": [],
    }


def test_pods_without_a_device_request_are_left_alone() -> None:
    asks_for_0 = pod('{"runningcontainer": {"main": {"requests": {"resource/group/gpu/0/cards": 0}}}}')
    for other in (pod(None), pod("{}"), pod('{"runningcontainer": {"main": {"scorer": {"a": 1}}}}'), asks_for_0):
        assert changed(other) == (other["spec"], ())
    assert changed(pod(), AdmissionSettings()) == (pod()["spec"], ())
    assert changed(pod("{"), AdmissionSettings()) == (pod()["spec"], ())


def test_a_pod_that_names_another_scheduler_keeps_it_and_is_warned() -> None:
    spec, warnings = changed(pod(scheduler="volcano"))
    assert spec == pod(scheduler="volcano")["spec"]
    assert "only larder-scheduler allocates devices, and the pod names volcano" in warnings[0]


def test_a_pod_that_is_bound_already_is_warned() -> None:
    assert "gets no devices" in changed(pod(nodeName="n"))[1][0]


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        ("{", "the text is not JSON"),
        (json.dumps({"x": "y" * MAX_REQUEST_BYTES}), "a pod may write 32768: shorten names"),
        ('{"runningcontainer": {"main": {"requests": {"a": -1}}}}', r"requests\['a'\] is -1"),
        ('{"runningcontainer": {"other": {"requests": {"a": 1}}}}', "no container 'other'"),
        ('{"initcontainer": {"main": {"requests": {"a": 1}}}}', "no container 'main'"),
        ("[" * 30_000, "nested too deeply|not JSON"),
    ],
    ids=["json", "size", "number", "container", "init", "depth"],
)
def test_a_malformed_annotation_is_refused(annotation: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        changed(pod(annotation))
