"""Nodes that join, leave, are lost and come back; limits of groups; removal that spares models in use."""

import shutil
import time

import pytest

from rig.errors import CallRefused
from rig.larder.objects import path_of
from rig.larder.site import Site
from rig.pods import base_model_pod, kserve_pod


def test_a_node_that_is_relabelled_gets_and_loses_its_models(site: Site) -> None:
    labels = {"pool": site.name("p")}
    group = site.group(labels)
    name = site.cache(group=group)
    site.until(lambda: site.ready_condition("ClusterModelCache", name).get("reason") == "NoNodes", "no nodes yet")
    site.label("c", labels)
    revision = site.wait_ready("ClusterModelCache", name)["resolvedRevision"]
    assert site.snapshot("c", name, revision).exists()
    site.until(lambda: site.status("ModelCacheNodeGroup", group).get("nodes") == ["c"], "the group to name its node")
    site.until(lambda: site.get("ModelCacheNodeGroup", group)["status"].get("used", 0) > 2**20, "usage")

    site.label("c", {"pool": None})
    site.until(lambda: site.entries("c", name) == [], "the entry to be gone")
    assert not site.snapshot("c", name, revision).exists()
    mine = [k for k in site.labels("c") if k.endswith(name)]
    assert mine == []


def test_overlapping_groups_are_reported_and_the_smallest_limit_counts(site: Site) -> None:
    one, two = {"one": site.name("x")}, {"two": site.name("y")}
    first = site.group(one, storageLimit="64Mi")
    second = site.group(two, storageLimit="32Mi", bandwidthLimit="50Mi")
    site.label("c", one | two)
    site.until(lambda: site.get("ModelNode", "c")["spec"].get("storageLimit") == 32 * 2**20, "the limit")
    assert site.get("ModelNode", "c")["spec"]["bandwidthLimit"] == 50 * 2**20

    def overlapping(group: str) -> str:
        conditions = site.status("ModelCacheNodeGroup", group).get("conditions", [])
        return next((str(c["status"]) for c in conditions if c["type"] == "Overlapping"), "")

    site.until(lambda: overlapping(first) == overlapping(second) == "True", "both groups to report Overlapping")
    site.label("c", {"two": None})
    site.until(lambda: overlapping(first) == "False", "the condition to clear")
    site.label("c", {"one": None})


def test_twenty_pods_are_scheduled_only_to_the_node_with_the_model(site: Site) -> None:
    name = site.base_model(nodeSelector={"kubernetes.io/hostname": "b"})
    site.wait_ready("ClusterBaseModel", name)
    pods = [site.name("pod") for _ in range(20)]
    for pod in pods:
        site.pod(base_model_pod(pod, name))
    site.until(lambda: all(site.pod_node(p) for p in pods), "all pods to be placed")
    assert {site.pod_node(p) for p in pods} == {"b"}
    for pod in pods:
        site.delete_pod(pod)


def test_a_pod_waits_until_a_node_has_the_model(site: Site) -> None:
    labels = {"later": site.name("l")}
    name = site.base_model(nodeSelector=labels)
    site.until(lambda: "servingRevision" in site.status("ClusterBaseModel", name), "the model to be resolved")
    pod = site.name("early")
    site.pod(base_model_pod(pod, name), behind="not resolved yet")
    site.label("c", labels)
    site.until(lambda: site.pod_node(pod) == "c", "the pod to be placed")
    assert site.labels("c")[f"model-cache-ready-{name}"] == "true"
    site.until(lambda: site.phases("c", name) == ["Ready"], "the entry to be Ready")
    site.delete_pod(pod)
    site.label("c", {"later": None})


def test_a_kserve_pod_uses_the_cache_instead_of_a_download(site: Site) -> None:
    uri = site.push()
    name = site.cache(uri)
    site.wait_ready("ClusterModelCache", name)
    pod = site.name("kserve")
    made = site.pod(kserve_pod(pod, f"{uri}:main"))
    assert "initContainers" not in made["spec"]
    assert made["spec"]["nodeSelector"][f"model-cache-ready-{name}"] == "true"
    site.until(lambda: site.pod_node(pod) in ("a", "b"), "the pod to be placed")
    site.delete_pod(pod)


def test_a_model_in_use_by_a_pod_is_neither_deleted_nor_removed_from_its_node(site: Site) -> None:
    labels = {"used": site.name("u")}
    name = site.base_model(nodeSelector=labels)
    site.label("c", labels)
    revision = site.wait_ready("ClusterBaseModel", name)["resolvedRevision"]
    pod = site.name("user")
    site.pod(base_model_pod(pod, name))
    site.until(lambda: site.pod_node(pod) == "c", "the pod to be placed")

    with pytest.raises(CallRefused, match=f"default/{pod}"):
        site.delete("ClusterBaseModel", name)
    site.label("c", {"used": None})
    site.until(lambda: site.entries("c", name)[0].get("inUse") is True, "the entry to be held")
    time.sleep(3)  # longer than a drain, in which a wrong removal would have happened
    assert site.snapshot("c", name, revision).exists()
    assert site.labels("c")[f"model-cache-ready-{name}"] == "true"

    site.delete_pod(pod)
    site.until(lambda: site.entries("c", name) == [], "the entry to go once the pod has")
    assert not site.snapshot("c", name, revision).exists()
    site.delete_unused("ClusterBaseModel", name)
    site.until(lambda: site.is_gone("ClusterBaseModel", name), "the model to be gone")


def test_a_deleted_cache_is_gone_only_after_its_files_and_labels(site: Site) -> None:
    name = site.cache()
    revision = site.wait_ready("ClusterModelCache", name)["resolvedRevision"]
    site.delete("ClusterModelCache", name)
    site.until(lambda: site.is_gone("ClusterModelCache", name), "the cache to be gone")
    for node in ("a", "b"):
        assert not site.snapshot(node, name, revision).exists()
        assert f"model-cache-ready-{name}" not in site.labels(node)


def test_reserved_files_outlive_their_object_and_are_reused(site: Site) -> None:
    uri, name = site.push(), site.name("kept")
    storage = {"storageUri": uri, "nodeSelector": {"gpu": "yes"}}
    spec = {"storage": storage, "modelFormat": {"name": "x"}}
    reserve = {"models.ome/reserve-model-artifact": "true"}
    site.create("ClusterBaseModel", name, spec, labels=reserve)
    revision = site.wait_ready("ClusterBaseModel", name)["resolvedRevision"]
    site.until(lambda: "a" in site.status("ClusterBaseModel", name)["nodesReady"], "node a to have the model")
    site.delete("ClusterBaseModel", name)
    site.until(lambda: site.is_gone("ClusterBaseModel", name), "the model to be gone")
    time.sleep(3)  # longer than a drain, in which a wrong removal would have happened
    assert (site.snapshot("a", name, revision) / ".completed").exists()

    site.push(repo=uri.removeprefix("hf://"))  # the branch moves on
    again = spec | {"storage": storage | {"downloadPolicy": "ReuseIfExists"}}
    site.create("ClusterBaseModel", name, again)
    assert site.wait_ready("ClusterBaseModel", name)["resolvedRevision"] == revision


def test_a_node_that_is_not_ready_is_listed_and_counted(site: Site) -> None:
    site.cluster.nodes.add("d", {"late": "yes"})
    site.cluster.start_agent("d")
    group = site.group({"late": "yes"})
    name = site.cache(group=group)
    site.wait_ready("ClusterModelCache", name)
    with site.cluster.nodes.lost("d"):
        site.until(lambda: site.status("ClusterModelCache", name)["nodeStatus"] == {"d": "notReady"}, "d to be listed")
        status = site.status("ClusterModelCache", name)
        assert (status["ready"], status["storageStatus"]) == ("0/1", "Pending")
    site.wait_ready("ClusterModelCache", name)


def test_a_recreated_node_with_an_empty_disk_downloads_its_models_again(site: Site) -> None:
    name = site.cache()
    revision = site.wait_ready("ClusterModelCache", name)["resolvedRevision"]
    agent = site.cluster.agents["b"]
    agent.remove()
    site.cluster.nodes.remove("b")
    agent.wipe()
    site.cluster.nodes.add("b", {"gpu": "yes"})
    site.cluster.start_agent("b")
    site.until((site.snapshot("b", name, revision) / ".completed").exists, "the files to be fetched again")
    site.until(lambda: f"model-cache-ready-{name}" in site.labels("b"), "the label to be back")
    site.wait_ready("ClusterModelCache", name)


def test_an_emptied_model_node_is_restored_and_no_files_are_deleted(site: Site) -> None:
    name = site.cache()
    revision = site.wait_ready("ClusterModelCache", name)["resolvedRevision"]
    site.api.patch(path_of("ModelNode", "a"), {"spec": {"entries": []}})
    site.until(lambda: [e["revision"] for e in site.entries("a", name)] == [revision], "the spec to be restored")
    assert (site.snapshot("a", name, revision) / ".completed").exists()
    site.until(lambda: site.phases("a", name) == ["Ready"], "the entry to be Ready")
    assert site.labels("a")[f"model-cache-ready-{name}"] == "true"


def test_files_that_no_object_references_are_removed(site: Site) -> None:
    name = site.cache()
    revision = site.wait_ready("ClusterModelCache", name)["resolvedRevision"]
    agent = site.cluster.agents["b"]
    copy = site.folder / site.name("copy")
    shutil.copytree(site.snapshot("b", name, revision), copy / revision)
    site.delete("ClusterModelCache", name)
    site.until(lambda: site.is_gone("ClusterModelCache", name), "the cache to be gone")
    target = agent.root / "models" / name
    with site.cluster.without_agent("b"):
        target.mkdir(exist_ok=True)
        shutil.copytree(copy / revision, target / revision)
    site.until(lambda: not (target / revision).exists(), "the files to be removed")
    site.until(lambda: site.entries("b", name) == [], "the entry to be gone")
