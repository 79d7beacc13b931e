import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rig.errors import CallRefused, StartFailed
from rig.node.installation import NAMESPACE, RELEASE, Installation
from shared.names import ready_label, snapshot_label

_PAST_THE_CACHE = """
import mmap, os
from agent.linux.cgroup import cache_bytes
from agent.linux.direct_write import PAGE_BYTES, DirectWriter
path = os.environ["LARDER_ROOT"] + "/.past-the-cache"
file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
os.unlink(path)
print(cache_bytes(), DirectWriter(file).write(memoryview(mmap.mmap(-1, PAGE_BYTES)), 0))
"""


def test_models_and_caches_become_ready_through_the_daemon_set(site: Installation) -> None:
    model = site.base_model(nodeSelector={"gpu": "yes"})
    cache = site.create("ClusterModelCache", site.name("cache"), {"storageUri": site.push(), "nodeGroup": "gpus"})
    for kind, name in (("ClusterBaseModel", model), ("ClusterModelCache", cache)):
        revision = site.wait_ready(kind, name)["servingRevision"]
        labels = site.labels("one")
        assert labels[ready_label(name)] == labels[snapshot_label(name, revision)] == "true"
        snapshot = site.snapshot("one", name, revision)
        assert (snapshot / ".completed").exists()
        assert (snapshot / "config.json").stat().st_uid == 65532
        assert snapshot.stat().st_mode & 0o777 == 0o555


def test_an_agent_knows_its_memory_limit_and_can_bypass_the_page_cache(site: Installation) -> None:
    agent = site.ready_agent("one")
    argv = ["/opt/venv/bin/python", "-c", _PAST_THE_CACHE]
    reported = site.cluster.exec(NAMESPACE, agent["metadata"]["name"], argv, "agent")
    assert [int(number) for number in reported.split()] == [2**30, mmap.PAGESIZE]


def test_a_workload_can_read_but_not_change_its_model(site: Installation) -> None:
    model = site.base_model(nodeSelector={"gpu": "yes"})
    revision = site.wait_ready("ClusterBaseModel", model)["servingRevision"]
    web = site.deployment(model)
    pod = site.running(web)
    assert pod["spec"]["nodeName"] == "one"
    assert site.sh(pod, "cat $MODEL_PATH/config.json") == (
        site.snapshot("one", model, revision) / "config.json"
    ).read_text(encoding="utf-8")
    for attempt in ("touch $MODEL_PATH/new", "echo x >>$MODEL_PATH/config.json", "chmod 777 $MODEL_PATH/config.json"):
        with pytest.raises(StartFailed, match="Read-only file system"):
            site.sh(pod, attempt)


def test_a_model_is_removed_only_when_it_is_not_in_use(site: Installation) -> None:
    model = site.base_model(nodeSelector={"gpu": "yes"})
    revision = site.wait_ready("ClusterBaseModel", model)["servingRevision"]
    snapshot = site.snapshot("one", model, revision)
    web = site.deployment(model)
    site.running(web)
    site.until(lambda: web in site.deletion_refusal("ClusterBaseModel", model), "admission to see the pod")
    with pytest.raises(CallRefused, match=web):  # it names the users
        site.delete("ClusterBaseModel", model)
    assert snapshot.exists()
    site.remove_deployment(web)
    site.delete_unused("ClusterBaseModel", model)
    site.until(lambda: not snapshot.exists(), "the files to be gone")
    site.until(lambda: ready_label(model) not in site.labels("one"), "the label to be gone")


def test_a_second_node_gets_its_models_and_loses_them_when_relabelled(site: Installation) -> None:
    model = site.base_model(nodeSelector={"gpu": "yes"})
    revision = site.wait_ready("ClusterBaseModel", model)["servingRevision"]
    with _added_node(site, "two"):
        snapshot = site.snapshot("two", model, revision)
        site.until(lambda: ready_label(model) in site.labels("two"), "the model on node two")
        both = ["one", "two"]
        site.until(lambda: sorted(site.wait_ready("ClusterBaseModel", model)["nodesReady"]) == both, "both nodes")
        assert (snapshot / "config.json").exists()

        site.label("two", {"gpu": None})
        site.until(lambda: ready_label(model) not in site.labels("two"), "the label to be gone")
        site.until(lambda: not snapshot.exists(), "the files to be gone")
        site.until(lambda: _blobs(site, "two") == [], "the blobs to be gone")
        assert ready_label(model) in site.labels("one")


@contextmanager
def _added_node(site: Installation, name: str) -> Iterator[None]:
    """Another node of the group, which later tests do not see."""
    site.cluster.add_node(name, {"gpu": "yes"})
    try:
        yield
    finally:
        site.cluster.remove_node(name)
        site.wait_rolled_out()


def _blobs(site: Installation, node: str) -> list[str]:
    return [name for _, _, files in os.walk(site.store(node) / "blobs") for name in files]


def test_the_helm_test_succeeds(site: Installation) -> None:
    assert "Phase:          Succeeded" in site.cluster.helm.run("test", RELEASE, "--namespace", NAMESPACE)
