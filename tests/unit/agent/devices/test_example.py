"""Example devices come from a file, within limits."""

import json
from pathlib import Path

import pytest

from agent.devices.example import MAX_FILE_BYTES, VARIABLE, ExampleDevices
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo
from tests.builders.device_plugins import CARD


def written(path: Path, **values: object) -> ExampleDevices:
    (path / "devices.json").write_text(json.dumps(values))
    return ExampleDevices(path / "devices.json")


def filled(plugin: ExampleDevices) -> NodeInfo:
    info = NodeInfo("n1")
    plugin.update_node_info(info)
    return info


def test_the_plugin_offers_the_current_contents_of_its_file(tmp_path: Path) -> None:
    extended = {"larder.dev/example-gpu": 2}
    plugin = written(tmp_path, allocatable={CARD: 1}, scorer={CARD: 1}, kubecap=extended, kubealloc=extended)
    plugin.new()
    plugin.start()
    expected = NodeInfo("n1", {CARD: 1}, {CARD: 1}, {}, {CARD: 1}, extended, extended)
    assert filled(plugin) == expected
    written(tmp_path, capacity={CARD: 2}, allocatable={CARD: 1})
    assert filled(plugin) == NodeInfo("n1", {CARD: 2}, {CARD: 1}), "the file is read again"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ('{"name": "\xff"}', "not JSON"),
        ("[" * 10_000, "not JSON"),
        ("[]", "has no JSON object"),
        ('{"used": {}}', "has used; write allocatable"),
        ('{"allocatable": {"a": -1}}', "is -1"),
        ('{"allocatable": [1]}', "not an object"),
        (" " * (MAX_FILE_BYTES + 1), "more than 262144 bytes"),
    ],
)
def test_a_wrong_file_is_refused_at_the_start(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "devices.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=words):
        ExampleDevices(tmp_path / "devices.json").start()


def test_a_missing_file_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ExampleDevices(tmp_path / "devices.json").start()


def test_the_variable_of_a_container_lists_only_its_own_devices(tmp_path: Path) -> None:
    other = "resource/group/gpu/1/cards"
    plugin = written(tmp_path, allocatable={CARD: 1, other: 1})
    plugin.start()
    container = ContainerInfo(allocate_from={"x": other, "y": CARD, "z": "resource/group/tpu/0/chips"})
    assert plugin.allocate(PodInfo(), container) == ((), (), {VARIABLE: f"{CARD},{other}"})
    assert plugin.allocate(PodInfo(), ContainerInfo()) == ((), (), {})
