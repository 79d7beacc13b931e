"""A cache of several node groups: stored once on each of their nodes, and used by pods that name one group."""

import pytest

from rig.errors import CallRefused
from rig.larder.site import Site
from rig.pods import plain_pod
from shared.json_object import Json

NODE_GROUP = "serving.kserve.io/nodegroup"


def asking(site: Site, cache: str, group: str = "") -> Json:
    """Return a pod that names the cache, and a group if there is one."""
    annotations = {"larder.dev/model": f"cmc/{cache}"} | ({NODE_GROUP: group} if group else {})
    return plain_pod(site.name("pod"), annotations)


def places(site: Site, cache: str, group: str, count: int) -> set[str]:
    """Run some pods, and return the nodes that they were scheduled to."""
    names = [site.pod(asking(site, cache, group))["metadata"]["name"] for _ in range(count)]
    for name in names:
        site.until(lambda n=name: bool(site.pod_node(n)), f"pod {name} to be placed")  # type: ignore[misc]
    found = {site.pod_node(name) for name in names}
    for name in names:
        site.delete_pod(name)
    return found


def test_a_cache_of_two_groups_is_stored_once_on_every_node_of_both(site: Site) -> None:
    other, both = {"other": site.name("other")}, site.name("both")
    site.label("c", other)
    group = site.group(other)
    cache = site.cache(name=both, group="gpus", nodeGroups=[group, "gpus"])
    status = site.wait_ready("ClusterModelCache", cache)
    assert (status["ready"], sorted(status["nodeStatus"])) == ("3/3", ["a", "b", "c"])
    assert status["printedGroups"] == f"gpus, {group}"
    assert all(len(site.entries(node, cache)) == 1 for node in "abc")

    assert places(site, cache, group, 4) == {"c"}
    assert places(site, cache, "gpus", 4) <= {"a", "b"}
    assert places(site, cache, "", 2) <= {"a", "b", "c"}
    with pytest.raises(CallRefused, match=rf"nodegroup is 'elsewhere', but .* is kept on gpus, {group}; write one of"):
        site.pod(asking(site, cache, "elsewhere"))

    site.label("a", other)  # now in both groups
    site.until(lambda: site.status("ClusterModelCache", cache)["ready"] == "3/3", "the cache to be complete")
    assert len(site.entries("a", cache)) == 1
    site.label("c", {"other": None})
    site.until(lambda: site.status("ClusterModelCache", cache)["ready"] == "2/2", "node c to leave the cache")
    site.until(lambda: site.entries("c", cache) == [], "the files to leave node c")
    site.label("a", {"other": None})
    site.delete("ClusterModelCache", cache)
    site.until(lambda: site.is_gone("ClusterModelCache", cache), "the cache to be gone")


def test_a_cache_that_fits_in_only_one_of_its_groups_is_served_there(site: Site) -> None:
    small = {"small": site.name("small")}
    site.label("c", small)
    group = site.group(small, storageLimit="1Mi")
    cache = site.cache(site.push(size_bytes=4 * 2**20), nodeGroups=[group])
    message = site.wait_reason("ClusterModelCache", cache, "InsufficientStorage")
    assert "need" in message
    site.until(lambda: site.status("ClusterModelCache", cache)["ready"] == "2/3", "the large group to have the model")
    status = site.status("ClusterModelCache", cache)
    assert (status["storageStatus"], status["nodesTotal"]) == ("Failed", 3)
    assert places(site, cache, "", 2) <= {"a", "b"}
    site.delete_unused("ClusterModelCache", cache)
    site.until(lambda: site.is_gone("ClusterModelCache", cache), "the cache to be gone")
