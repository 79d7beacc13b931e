"""A node is lost permanently while a pod on it waits for its model."""

import hashlib
import os

from controller.placement.volume_names import MODEL_ANNOTATION
from rig.fake_nodes.decide import NEVER_STARTS
from rig.hub.faults import Stall
from rig.larder.site import Site
from rig.pods import plain_pod
from shared.json_object import Json

_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_PODS = "/api/v1/namespaces/default/pods"
_VOLUMES = "/api/v1/persistentvolumes"


def deploy(site: Site, model: str) -> str:
    """Create a Deployment whose pod waits for its model on any node, and return its name."""
    name = site.name("web")
    asks = {"larder.dev/model": model, "larder.dev/placement": "preferred", NEVER_STARTS: ""}
    pod = plain_pod("any", asks)
    template = {"metadata": {"labels": {"app": name}, "annotations": asks}, "spec": pod["spec"]}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    site.api.create(_DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec})
    return name


def nodes_of(site: Site, web: str) -> dict[str, str]:
    """Return the node of each scheduled pod of a Deployment."""
    pods = site.api.get(f"{_PODS}?labelSelector=app={web}")["items"]
    return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods if p["spec"].get("nodeName")}


def volumes(site: Site, model: str) -> list[Json]:
    found = site.api.get(_VOLUMES)["items"]
    return [v for v in found if v["metadata"].get("annotations", {}).get(MODEL_ANNOTATION, "").startswith(f"{model}@")]


def test_the_replacement_pod_waits_on_another_node_and_gets_its_files_there(site: Site) -> None:
    slot, content = {"slot": site.name()}, os.urandom(3_000_000)
    site.hub.faults.add(Stall(100_000), f"*{hashlib.sha256(content).hexdigest()}")
    model = site.base_model(site.push(files={"model.safetensors": content}), nodeSelector=slot)
    site.until(lambda: "servingRevision" in site.status("ClusterBaseModel", model), "the model to be resolved")
    site.cluster.add_node("lost", slot)
    web = deploy(site, model)
    site.until(lambda: set(nodes_of(site, web).values()) == {"lost"}, "the pod on the node")
    (first,) = nodes_of(site, web)
    site.until(lambda: "WaitingForModel" in site.reasons(first), "the Event on the pod")

    site.cluster.agents.pop("lost").remove()
    site.cluster.nodes.remove("lost")
    site.label("a", slot)
    site.until(lambda: set(nodes_of(site, web).values()) == {"a"}, "another pod on another node")
    (second,) = nodes_of(site, web)
    site.until(lambda: [e.get("awaited") for e in site.entries("a", model)] == [True], "that node to know")
    site.until(
        lambda: bool({"WaitingForModel", "ModelDelayed"} & site.reasons(second).keys()), "an Event on the second pod"
    )
    site.hub.faults.clear()
    site.until(lambda: "ModelOnNode" in site.reasons(second), "the files for the second pod")
    assert first != second
    assert volumes(site, model)
    site.api.delete(f"{_DEPLOYMENTS}/{web}?propagationPolicy=Foreground")
    site.until(lambda: not nodes_of(site, web), "the pods to be gone")
    site.delete_unused("ClusterBaseModel", model)
    site.until(lambda: site.is_gone("ClusterBaseModel", model), "the model to go, though a node of it never answered")
    site.until(lambda: not volumes(site, model), "the volume to be gone")
