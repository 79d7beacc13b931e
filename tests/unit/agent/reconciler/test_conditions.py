from pathlib import Path

import pytest

from agent.reconciler.status import node_conditions
from agent.store.floor import StoreVolume

GIB = 2**30


@pytest.mark.parametrize(
    ("on_root", "refuses", "status", "reason"),
    [(False, True, "False", "DiskOfItsOwn"), (True, False, "True", "DiskOfTheNode"), (True, True, "True", "Refused")],
)
def test_the_condition_reports_which_disk_holds_the_store(
    *, on_root: bool, refuses: bool, status: str, reason: str
) -> None:
    volume = StoreVolume(Path("/models"), on_root_disk=on_root, refuses_root_disk=refuses)
    ready, reported = node_conditions(volume, 1000 * GIB, 150 * GIB, 7)
    assert (ready.type, ready.status) == ("Ready", "False" if reason == "Refused" else "True")
    assert {ready.observed_generation, reported.observed_generation} == {7}
    assert ready.message
    assert (reported.type, reported.status, reported.reason) == ("StoreOnRootDisk", status, reason)
    assert on_root == ("/models" in reported.message)


def test_the_message_states_the_disk_size_and_the_floor() -> None:
    _, reported = node_conditions(StoreVolume(Path("/models"), on_root_disk=True), 1000 * GIB, 150 * GIB, 1)
    assert "(1000.0 GiB)" in reported.message
    assert "150.0 GiB are kept free" in reported.message
