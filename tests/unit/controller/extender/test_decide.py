"""Priorities: models first, devices between equals."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.extender.decide import ScoredNode, filter_result, priorities
from controller.extender.model_preference import ModelPreference, model_preference
from shared.names import draining_label, fetching_label, ready_label, snapshot_label

M, R = "llama", "c0ffee"
HAS = {ready_label(M): "true", snapshot_label(M, R): "true"}


@pytest.mark.parametrize(
    ("labels", "has_room", "expected"),
    [
        (HAS, False, ModelPreference.HAS_MODEL),
        (HAS | {draining_label(M, R): "true"}, False, ModelPreference.NOTHING),
        ({snapshot_label(M, R): "true"}, False, ModelPreference.FETCHES),
        ({fetching_label(M, R): "true"}, False, ModelPreference.FETCHES),
        ({}, True, ModelPreference.HAS_ROOM),
        ({}, False, ModelPreference.NOTHING),
        ({ready_label(M): "true"}, True, ModelPreference.HAS_ROOM),
    ],
)
def test_what_a_node_is_for_a_model(labels: dict[str, str], has_room: bool, expected: ModelPreference) -> None:  # noqa: FBT001 - a table
    assert model_preference([(M, R)], labels, has_room=has_room) == expected


def test_the_worst_of_several_models_counts() -> None:
    assert model_preference([(M, R), ("other", R)], HAS, has_room=True) == ModelPreference.HAS_ROOM
    assert model_preference([], HAS, has_room=True) == ModelPreference.NOTHING


def test_filter_names_each_node_once() -> None:
    nodes = [ScoredNode("a"), ScoredNode("b", fits=False, reason="no cards"), ScoredNode("c")]
    assert msgspec.json.decode(msgspec.json.encode(filter_result(nodes))) == {
        "NodeNames": ["a", "c"],
        "FailedAndUnresolvableNodes": {"b": "no cards"},
        "Error": "",
    }


_NODES = st.builds(
    ScoredNode,
    name=st.just("n"),
    fits=st.booleans(),
    score=st.floats(-1e9, 1e9),
    models=st.sampled_from(ModelPreference),
)


@given(st.lists(_NODES, max_size=8), st.booleans())
def test_priorities_are_what_the_scheduler_takes(nodes: list[ScoredNode], wants_models: bool) -> None:  # noqa: FBT001 - hypothesis
    found = priorities(nodes, wants_models=wants_models)
    assert len(found) == len(nodes)
    for node, priority in zip(nodes, found, strict=True):
        assert 0 <= priority.score <= 10
        for other, its in zip(nodes, found, strict=True):
            if wants_models and node.fits and other.fits and node.models > other.models:
                assert priority.score > its.score
