import hashlib
import os
from pathlib import Path

import pytest

from rig.errors import CallRefused
from rig.hub.faults import Stall
from rig.node.installation import Installation
from rig.node.label_log import LabelLog
from shared.json_object import Json
from shared.names import ready_label


def _restarts(pod: Json) -> int:
    return sum(status["restartCount"] for status in pod["status"]["containerStatuses"])


def _identity(path: Path) -> tuple[int, int, int]:
    """Return what changes when a file is fetched or repaired, but not when another model shares it."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _same(site: Installation, web: str, pod: Json) -> None:
    """Assert that the workload was neither restarted nor replaced."""
    (now,) = site.pods(f"app={web}", "default")
    assert (now["metadata"]["uid"], _restarts(now)) == (pod["metadata"]["uid"], _restarts(pod))
    assert site.sh(now, "cat $MODEL_PATH/config.json")


def _declared(site: Installation) -> str:
    """Declare a model once admission answers; lost replicas are still called until kube-proxy removes them."""
    name, uri = site.name("model"), site.push()

    def is_taken() -> bool:
        try:
            site.base_model(uri, name=name, nodeSelector={"gpu": "yes"})
        except CallRefused as refusal:
            if "failed calling webhook" not in str(refusal):
                raise
            return False
        return True

    site.until(is_taken, "admission to answer")
    return name


def test_a_replaced_agent_keeps_the_labels_and_the_running_pods(site: Installation, tmp_path: Path) -> None:
    model = site.base_model(nodeSelector={"gpu": "yes"})
    site.wait_ready("ClusterBaseModel", model)
    web = site.deployment(model)
    pod, old = site.running(web), site.ready_agent("one")
    with LabelLog(site.cluster, "one", tmp_path) as labels:
        site.delete_pod(old)
        site.ready_agent("one", other_than=old["metadata"]["uid"])
        site.cluster.wait_node("one")  # another heartbeat was observed
    assert labels.always(ready_label(model))
    _same(site, web, pod)


def test_another_controller_leads_when_the_leader_is_killed(site: Installation) -> None:
    controllers = "app.kubernetes.io/component=controller"
    leading: list[Json] = []

    def leads() -> bool:
        leader = site.leader()
        leading[:] = [p for p in site.pods(controllers) if p["metadata"]["name"] == leader]
        return bool(leading)

    site.until(leads, "a leader that lives")
    (pod,) = leading
    site.delete_pod(pod, grace_s=0)
    site.until(lambda: site.leader() not in ("", pod["metadata"]["name"]), "another leader")
    site.wait_ready("ClusterBaseModel", _declared(site))
    site.wait_rolled_out()


def test_a_restarted_kubelet_keeps_running_pods_and_starts_waiting_ones(site: Installation, stalled: str) -> None:
    model = site.base_model(nodeSelector={"gpu": "yes"})
    site.wait_ready("ClusterBaseModel", model)
    web = site.deployment(model)
    pod, claim = site.running(web), _claim_of(site, model)
    late = site.base_model(stalled, nodeSelector={"gpu": "yes"})
    site.until(lambda: "servingRevision" in site.status("ClusterBaseModel", late), "the model to be resolved")
    waiting = site.workload({"larder.dev/model": late, "larder.dev/placement": "preferred"})

    def is_waiting() -> bool:
        names = [pod["metadata"]["name"] for pod in site.pods(f"app={waiting}", "default")]
        return any(event["reason"] == "FailedMount" for name in names for event in site.events(name))

    site.until(is_waiting, "a mount that waits")
    site.cluster.restart_kubelet("one")
    site.cluster.wait_node("one")
    _same(site, web, pod)
    assert _claim_of(site, model) == claim
    site.hub.faults.clear()
    assert site.sh(site.running(waiting), "cat $MODEL_PATH/config.json")


@pytest.fixture
def stalled(site: Installation) -> str:
    """The URI of a model whose download stops until the faults of the hub are cleared."""
    weights = os.urandom(2_000_000)
    site.hub.faults.add(Stall(100_000), f"*{hashlib.sha256(weights).hexdigest()}")
    return site.push(files={"weights.bin": weights, "config.json": b"{}"})


def _claim_of(site: Installation, model: str) -> tuple[str, str]:
    """Return what identifies the claim of a model and its binding."""
    found = site.api.get(f"/api/v1/namespaces/default/persistentvolumeclaims/{model}")
    return found["metadata"]["uid"], found["status"]["phase"]


def test_a_rebooted_node_keeps_its_models_and_labels(site: Installation, tmp_path: Path) -> None:
    model = site.base_model(nodeSelector={"gpu": "yes"})
    revision = site.wait_ready("ClusterBaseModel", model)["servingRevision"]
    config = site.snapshot("one", model, revision) / "config.json"
    before = _identity(config)
    web = site.deployment(model)
    pod = site.running(web)

    with LabelLog(site.cluster, "one", tmp_path) as labels:
        site.cluster.reboot("one")
        site.until(lambda: _restarts(site.pods(f"app={web}", "default")[0]) > _restarts(pod), "a new container")
        assert site.sh(site.running(web), "cat $MODEL_PATH/config.json")
        site.ready_agent("one")
    assert labels.always(ready_label(model))
    assert _identity(config) == before

    site.wait_rolled_out()
    site.wait_ready("ClusterBaseModel", _declared(site))
