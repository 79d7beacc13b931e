"""Node preferences for a model, with a real kube-scheduler and agents: files, then a download, then free space."""

import hashlib
import os
from collections.abc import Iterator

import pytest

from rig.hub.faults import Stall
from rig.larder.site import Site
from rig.pods import plain_pod
from shared.devices.scheduler import SCHEDULER_NAME
from shared.json_object import Json
from shared.names import fetching_label, ready_label
from tests.integration.extender.conftest import AddNode
from tests.integration.extender.extender_client import ExtenderClient

_ROLES = ("files", "download", "room", "nothing")  # what the nodes of a test have for the model, the best first


@pytest.fixture
def nodes(site: Site, add_node: AddNode) -> Iterator[list[str]]:
    """Four nodes, all but the last with an agent; a better node for the model has more taints.

    kube-scheduler's own scores therefore prefer the last one.
    """
    names = [add_node({}) for _ in _ROLES]
    agents = [site.cluster.start_agent(name, wait=False) for name in names[:-1]]
    site.cluster.wait_agents()
    for index, name in enumerate(names):
        path = f"/api/v1/nodes/{name}"
        site.until(lambda path=path: not site.api.get(path)["spec"].get("taints"), "the node to be Ready")  # type: ignore[misc]
        taints = [{"key": f"rig/{n}", "effect": "PreferNoSchedule"} for n in range(len(_ROLES) - 1 - index)]
        site.api.patch(path, {"spec": {"taints": taints}})
    yield names
    site.hub.faults.clear()
    for agent in agents:
        del site.cluster.agents[agent.node]
        agent.remove()


def pod_for(site: Site, cache: str, *without: str) -> Json:
    """Create a pod that prefers nodes with the model and excludes these nodes, and return it."""
    annotations = {"larder.dev/model": f"clustermodelcache/{cache}", "larder.dev/placement": "preferred"}
    body = plain_pod(site.name("pod"), annotations)
    body["spec"]["schedulerName"] = SCHEDULER_NAME
    if without:
        others = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": list(without)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [others]}]}
        body["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return site.pod(body, behind="there is no")


def test_nodes_with_the_files_win_over_nodes_that_download_them_and_nodes_with_room(
    site: Site, nodes: list[str]
) -> None:
    slot, content = {"slot": site.name()}, os.urandom(2_000_000)
    uri = site.push(files={"weights.bin": content})
    cache = site.cache(uri, group=site.group(slot, maxConcurrentNodes=1))
    site.label(nodes[0], slot)
    site.until(lambda: ready_label(cache) in site.labels(nodes[0]), "the files")
    revision = str(site.status("ClusterModelCache", cache)["servingRevision"])
    site.hub.faults.add(Stall(100_000), f"*{hashlib.sha256(content).hexdigest()}")
    site.label(nodes[1], slot)
    site.until(lambda: fetching_label(cache, revision) in site.labels(nodes[1]), "the download to begin")
    site.label(nodes[2], slot)  # which may not begin as long as the other downloads
    site.label(nodes[3], slot)

    held_back = pod_for(site, cache, *nodes)
    extender, expected = ExtenderClient(site.cluster.controllers[0]), dict(zip(nodes, (9, 6, 3, 0), strict=True))
    site.until(lambda: extender.priorities(held_back, nodes) == expected, "the extender to know all of it")
    for index, node in enumerate(nodes):
        name = pod_for(site, cache, *nodes[:index])["metadata"]["name"]
        site.until(lambda name=name: site.pod_node(name) != "", "the pod to be bound")  # type: ignore[misc]
        assert site.pod_node(name) == node, f"the node with {_ROLES[index]}"
