"""larder-scheduler as the chart installs it, with the real kube-scheduler, beside the driver of models as devices.

A device plugin is installed in the agent's image as docs/devices.md says.
"""

import json
import os
from collections.abc import Iterator

import pytest

from rig.binaries import cache_dir
from rig.node import images
from rig.node.installation import NAMESPACE, Installation, is_pod_ready
from rig.node.prepare import tools
from shared.devices.annotation import ANNOTATION
from shared.devices.scheduler import NAMESPACE_LABEL, SCHEDULER_NAME
from shared.dra import DRIVER, resource_claims_in
from shared.json_object import Json
from tests.e2e.devices import tuner_plugin
from tests.e2e.devices.claims import (
    claim_template,
    claiming_spec,
    device_of,
    devices,
    exactly,
    reads_the_model,
    wait_for_driver,
)
from tests.e2e.namespaces import namespace_of_level

CONTROLLER = {"drainSeconds": 2}
DEVICES = {"enabled": True, "intervalSeconds": 5, "exampleConfigMap": "example-cards"}
CARDS = [f"resource/group/gpugrp0/0/gpu/{n}/cards" for n in range(2)]
ALLOW = {"mounts": [f"{tuner_plugin.FOLDER}/b"], "env": ["TUNERS_GIVEN", "LARDER_EXAMPLE_DEVICES"]}
TUNERS = [tuner_plugin.slot(name) for name in "ab"]
_SLOW_S = 180.0  # kubelet reads a ConfigMap again after a minute or so


@pytest.fixture(scope="module")
def site_with_scheduler(site: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The installation with larder-scheduler, the driver, two cards and two tuners, switched off again afterwards."""
    cache = cache_dir(os.environ)
    site.cluster.load_image(images.build_scheduler(cache, tools(os.environ).plane.kube_scheduler, print))
    site.cluster.load_image(tuner_plugin.build_agent(cache, tmp_path_factory.mktemp("tuners")))
    site.cluster.machine("one").run(tuner_plugin.PLUG_IN)
    body = {"data": {"devices.json": json.dumps({"allocatable": dict.fromkeys(CARDS, 1)})}}
    site.api.ensure(f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"name": "example-cards"}} | body)
    parts = {
        "agent": {"image": {"tag": tuner_plugin.TAG}, **tuner_plugin.EXTRAS},
        "dra": {"enabled": True, "allow": ALLOW, **tuner_plugin.EXTRAS},
        "scheduler": {"enabled": True, "replicas": 1},
    }
    site.install(controller=CONTROLLER, devices=DEVICES, **parts)
    wait_for_driver(site)
    site.cluster.kubectl(
        "rollout", "status", f"deployment/{SCHEDULER_NAME}", f"--namespace={NAMESPACE}", "--timeout=240s"
    )
    site.until(lambda: {*CARDS, *TUNERS} <= _advertised(site).keys(), "the cards and the tuners", _SLOW_S)
    yield site
    site.install(controller=CONTROLLER, devices=DEVICES | {"withdraw": True}, **parts)
    site.until(lambda: not _advertised(site), "the cards to be withdrawn", _SLOW_S)
    site.install(controller=CONTROLLER)


@pytest.fixture
def scheduled(site_with_scheduler: Installation, site: Installation) -> Installation:
    """The installation with larder-scheduler; `site` has workloads removed after each test."""
    assert site is site_with_scheduler
    return site


def _advertised(site: Installation) -> dict[str, int]:
    annotations = site.get("Node", "one")["metadata"]["annotations"]
    found: dict[str, int] = json.loads(annotations.get(ANNOTATION, "{}")).get("allocatable", {})
    return found


def _open_namespace(site: Installation) -> str:
    """Create a namespace whose pods larder-scheduler may give devices."""
    namespace = namespace_of_level(site, "restricted")
    site.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {NAMESPACE_LABEL: "true"}}})
    return namespace


def _asking(site: Installation, namespace: str, device: str, spec: Json) -> str:
    """Create a pod whose container asks for a device, and return its name."""
    name, asked = site.name("asks"), {"runningcontainer": {"main": {"requests": {device: 1}}}}
    meta = {"name": name, "labels": {"app": name}, "annotations": {ANNOTATION: json.dumps(asked)}}
    site.run("/api/v1/namespaces/{}/pods", {"metadata": meta, "spec": spec}, namespace)
    return name


def _both(site: Installation, model: str, namespace: str) -> str:
    """Create a pod that claims a model and asks for a card, and return its name."""
    template = claim_template(site, namespace, {"name": "model", "exactly": exactly(model)})
    return _asking(site, namespace, CARDS[0], claiming_spec(template))


def _card(pod: Json) -> str:
    """Return the card that was allocated to a pod."""
    info = json.loads(pod["metadata"]["annotations"][ANNOTATION])
    assert info["nodename"] == pod["spec"]["nodeName"]
    (card,) = info["runningcontainer"]["main"]["allocatefrom"].values()
    return str(card)


def test_a_pod_gets_its_model_from_the_driver_and_its_card_from_the_scheduler(scheduled: Installation) -> None:
    site, namespace = scheduled, _open_namespace(scheduled)
    model = site.base_model(nodeSelector={"gpu": "yes"})
    site.wait_ready("ClusterBaseModel", model)
    site.until(lambda: device_of(site, model) in devices(site), "the device of the model")
    pods = [site.running(_both(site, model, namespace), namespace) for _ in CARDS]
    assert {pod["spec"]["schedulerName"] for pod in pods} == {SCHEDULER_NAME}
    assert {pod["spec"]["nodeName"] for pod in pods} == {"one"}
    assert sorted(map(_card, pods)) == CARDS
    for pod in pods:
        reads_the_model(site, pod, model)
        assert site.sh(pod, "echo $LARDER_EXAMPLE_DEVICES", "main").strip() == _card(pod)

    last = _both(site, model, namespace)

    def refusal() -> str:
        (pod,) = site.pods(f"app={last}", namespace)
        conditions = pod["status"].get("conditions", [])
        return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")

    site.until(lambda: f"{CARDS[0]}: requested 1" in refusal(), "the reason of the third pod")
    site.delete_pod(pods[0], 0)
    successor = site.running(last, namespace)
    assert _card(successor) == _card(pods[0])
    reads_the_model(site, successor, model)


def _with_tuner(site: Installation, namespace: str) -> str:
    """Create a pod that asks for a tuner and for no model, and return its name."""
    template = claim_template(site, namespace, {"name": "model", "exactly": {"deviceClassName": f"fetch-{DRIVER}"}})
    return _asking(site, namespace, tuner_plugin.slot("0"), claiming_spec(template))


def test_a_container_gets_only_the_plugin_mounts_that_the_administrator_allows(scheduled: Installation) -> None:
    site, namespace = scheduled, _open_namespace(scheduled)
    first = site.running(_with_tuner(site, namespace), namespace)
    assert site.sh(first, "cat /tuners/b/firmware; echo $TUNERS_GIVEN", "main").split() == ["b", "b"]
    assert "done" not in site.sh(first, "touch /tuners/b/x 2>/dev/null && echo done; true", "main")

    second = _with_tuner(site, namespace)
    refusal = (
        f"a device plugin asks for mount {tuner_plugin.FOLDER}/a for container main, which dra.allow does not list; "
        "an administrator can add it there"
    )
    site.until(lambda: any(refusal in event["message"] for event in site.events(second)), "the Event of the pod")
    (waiting,) = site.pods(f"app={second}", namespace)
    assert waiting["spec"]["nodeName"] == "one"
    assert waiting["status"]["phase"] == "Pending"


def test_a_pod_that_names_the_claim_of_another_waits_and_its_events_say_why(scheduled: Installation) -> None:
    """It would get the plugin devices of the other pod."""
    site, namespace = scheduled, namespace_of_level(scheduled, "restricted")
    template = claim_template(site, namespace, {"name": "model", "exactly": {"deviceClassName": f"fetch-{DRIVER}"}})
    first = site.pod(site.name("own"), claiming_spec(template), namespace)
    (made,) = first["status"]["resourceClaimStatuses"]
    joining = claiming_spec(template) | {
        "resourceClaims": [{"name": "m", "resourceClaimName": made["resourceClaimName"]}]
    }
    name = site.name("joins")
    meta = {"name": name, "labels": {"app": name}}
    site.run("/api/v1/namespaces/{}/pods", {"metadata": meta, "spec": joining}, namespace)
    refusal = f"the claim was created for another pod than {name}"
    site.until(lambda: any(refusal in event["message"] for event in site.events(name)), "the Event of the pod")
    (waiting,) = site.pods(f"app={name}", namespace)
    assert "nodeName" not in waiting["spec"]


def test_a_pod_with_devices_does_not_join_a_claim_that_is_already_prepared(scheduled: Installation) -> None:
    """Kubelet would not ask the driver again, so the container would start without its tuner."""
    site, namespace = scheduled, _open_namespace(scheduled)
    claim = site.name("shared")
    asked: Json = {"requests": [{"name": "model", "exactly": {"deviceClassName": f"fetch-{DRIVER}"}}]}
    site.api.create(resource_claims_in(namespace), {"metadata": {"name": claim}, "spec": {"devices": asked}})
    shared = claiming_spec("") | {"resourceClaims": [{"name": "m", "resourceClaimName": claim}]}
    site.pod(site.name("first"), shared, namespace)  # it runs, so the claim is prepared

    name = _asking(site, namespace, tuner_plugin.slot("0"), shared)
    refusal = f"container main requests devices, which cannot be added to ResourceClaim {claim}"
    site.until(lambda: any(refusal in event["message"] for event in site.events(name)), "the Event of the pod")
    (waiting,) = site.pods(f"app={name}", namespace)
    assert "nodeName" not in waiting["spec"]


def test_the_scheduler_runs_unprivileged(scheduled: Installation) -> None:
    (pod,) = scheduled.pods("app.kubernetes.io/component=scheduler")
    assert is_pod_ready(pod)
    (container,) = pod["spec"]["containers"]
    assert container["image"] == images.SCHEDULER
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
