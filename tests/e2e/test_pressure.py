from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.node.installation import Installation
from rig.node.label_log import LabelLog
from rig.node.small_disk import SmallDisk
from shared.json_object import Json
from shared.names import ready_label

NODE, ONLY_THERE = "small", {"disk": "small"}
_MIB = 2**20
DISK = SmallDisk(1536 * _MIB, pressure_bytes=1400 * _MIB, evict_bytes=1200 * _MIB)
PRESSURE, BELOW_FLOOR = 1300 * _MIB, 900 * _MIB  # the floor of the store; by default, agents leave 1 GiB free


@pytest.fixture
def small(site: Installation) -> Iterator[str]:
    """A node whose disk can be filled."""
    site.cluster.add_node(NODE, ONLY_THERE, DISK)
    site.ready_agent(NODE)
    yield NODE
    site.cluster.remove_node(NODE)
    site.wait_rolled_out()


@pytest.fixture
def web(site: Installation, small: str) -> Iterator[str]:
    """A workload there, with its model."""
    model = site.base_model(nodeSelector=ONLY_THERE)
    site.wait_ready("ClusterBaseModel", model)
    assert ready_label(model) in site.labels(small)
    web = site.deployment(model)
    yield web
    site.remove_deployment(web)


def _leave_free(site: Installation, free_bytes: int) -> None:
    DISK.leave_free(site.cluster.machine(NODE), free_bytes)


def _has_pressure(site: Installation) -> bool:
    conditions: list[Json] = site.status("Node", NODE)["conditions"]
    return any(c["type"] == "DiskPressure" and c["status"] == "True" for c in conditions)


def _identity(pod: Json | None) -> str:
    """Return the pod of an agent and how often its container has started; empty if it is not ready."""
    return f"{pod['metadata']['uid']} {pod['status']['containerStatuses'][0]['restartCount']}" if pod else ""


def _agent(site: Installation) -> str:
    return _identity(site.agent(NODE))


def test_agent_and_models_survive_disk_pressure(site: Installation, small: str, web: str, tmp_path: Path) -> None:
    pod = site.running(web)
    model = pod["metadata"]["annotations"]["ome.io/base-model-name"]
    kubelet = site.cluster.machine(small).log("kubelet")
    with LabelLog(site.cluster, small, tmp_path) as labels:
        before = _identity(site.ready_agent(small))
        _leave_free(site, PRESSURE)
        site.until(lambda: _has_pressure(site), "pressure")
        assert site.sh(pod, "cat $MODEL_PATH/config.json")
        site.until(lambda: _agent(site) == before, "the same agent to be ready")

        found = site.ready_agent(small)
        site.delete_pod(found)  # as during an upgrade
        agent = _identity(site.ready_agent(small, other_than=found["metadata"]["uid"]))

        _leave_free(site, BELOW_FLOOR)
        late = site.base_model(nodeSelector=ONLY_THERE)
        assert "to keep free 1073741824 bytes" in site.wait_reason("ClusterBaseModel", late, "InsufficientStorage")
        site.until(lambda: "cannot evict a critical pod" in kubelet.read_text(), "all others to be evicted")
        site.until(lambda: _agent(site) == agent, "the same agent to be ready")

        _leave_free(site, DISK.size_bytes)
        site.until(lambda: not _has_pressure(site), "the pressure to be gone")
        site.wait_ready("ClusterBaseModel", late)
        assert site.sh(site.running(web), "cat $MODEL_PATH/config.json")
        site.until(lambda: _agent(site) == agent, "the same agent to be ready")
    assert labels.always(ready_label(model))
