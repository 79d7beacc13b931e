import pytest

from agent.reconciler.actions import Remove
from agent.reconciler.removals import still_wants_removal
from shared.api.model_node import ModelNode
from tests.builders.observations import UID, entry, model_node

GONE = entry(state="Absent")
ACTION = Remove(GONE, "mn-1", 3)


def test_a_removal_that_the_model_node_still_requests_is_confirmed() -> None:
    assert still_wants_removal(model_node([GONE]), UID, ACTION)


@pytest.mark.parametrize(
    "live",
    [
        model_node([GONE], generation=4),
        model_node([GONE], generation=2),
        model_node([GONE], uid="other"),
        model_node([GONE], uid=""),
        model_node([entry(state="Present")]),
        model_node([entry(state="Draining")]),
        model_node([]),
        model_node([GONE, entry(state="Present")]),
    ],
)
def test_a_removal_that_the_model_node_no_longer_requests_is_not_confirmed(live: ModelNode) -> None:
    assert not still_wants_removal(live, UID, ACTION)


def test_a_removal_is_not_confirmed_by_another_model_node_of_the_same_name() -> None:
    assert not still_wants_removal(model_node([GONE]), UID, Remove(GONE, "mn-2", 3))
    assert not still_wants_removal(model_node([GONE], uid=""), "", ACTION)
