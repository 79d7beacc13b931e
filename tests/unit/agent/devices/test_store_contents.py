"""Ready models follow the labels; free space follows the limit, the disk and reservations."""

import pytest

from agent.devices.store_contents import LatestContents, contents_of
from agent.reconciler.observation import HeldSnapshot, Observation
from agent.reconciler.state_cache import Space
from tests.builders.observations import DAMAGED, SOUND, both, observation

KEY = ("llama", "r1")
SPACE = Space(used=10, reserved=5, limit=100, disk_free=500, floor=50, disk_size=1000)


def ready(held: dict[tuple[str, str], HeldSnapshot], labels: tuple[str, ...]) -> tuple[str, ...]:
    return contents_of(observation(held=held, labels=labels), SPACE).ready


def test_a_model_is_ready_only_with_intact_files_and_both_labels() -> None:
    assert ready({KEY: SOUND}, both()) == ("llama",)
    assert ready({KEY: SOUND}, both()[:1]) == ()
    assert ready({KEY: SOUND}, both()[1:]) == ()
    assert ready({KEY: DAMAGED}, both()) == ()
    assert ready({}, both()) == ()


def test_two_revisions_count_as_one_ready_model() -> None:
    labels = (*both(), *both(revision="r2"))
    assert ready({KEY: SOUND, ("llama", "r2"): SOUND, ("qwen", "r1"): SOUND}, labels) == ("llama",)


def test_a_restarted_agent_counts_ready_models_before_it_knows_its_model_node() -> None:
    early = Observation(0.0, "u", dict.fromkeys(both(), "true"), held={KEY: SOUND})
    assert contents_of(early, SPACE).ready == ("llama",)


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (SPACE, (100, 100, 15)),
        (Space(used=10, reserved=5, limit=0, disk_free=500, floor=50, disk_size=1000), (1000, 950, 505)),
        (Space(used=10, reserved=5, limit=5000, disk_free=500, floor=50, disk_size=1000), (1000 * 5, 950, 505)),
        (Space(used=200, reserved=5, limit=100, disk_free=500, floor=50, disk_size=1000), (100, 100, 100)),
        (Space(used=0, reserved=0, limit=100, disk_free=40, floor=50, disk_size=1000), (100, 100, 100)),
        (Space(used=0, reserved=0, limit=100, disk_free=40, floor=50, disk_size=10), (100, 0, 0)),
        (Space(), (0, 0, 0)),
    ],
)
def test_available_bytes_follow_from_limit_and_disk(space: Space, expected: tuple[int, int, int]) -> None:
    found = contents_of(observation(), space)
    assert (found.capacity_bytes, found.allocatable_bytes, found.used_bytes) == expected


def test_only_a_change_of_the_ready_models_sets_the_changed_event() -> None:
    latest = LatestContents()
    latest.note(observation(synced=False, model_node=None), SPACE)
    assert not latest.known.is_set(), "the storage limit is not known yet"
    latest.note(observation(), SPACE)
    assert (latest.known.is_set(), latest.changed.is_set()) == (True, False)
    latest.note(observation(held={KEY: SOUND}, labels=both()), SPACE)
    assert latest.changed.is_set()
    latest.changed.clear()
    latest.note(observation(held={KEY: SOUND}, labels=both()), Space(used=11, disk_size=99))
    assert not latest.changed.is_set()
    assert latest.value.ready == ("llama",)
