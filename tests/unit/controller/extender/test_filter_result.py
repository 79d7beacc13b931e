"""Priorities: models first, devices between equals."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.extender.filter_result import NodeFit, ScoredNode, filter_result, priorities
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
def test_the_preference_for_a_node_follows_from_its_labels_and_free_space(
    labels: dict[str, str],
    has_room: bool,  # noqa: FBT001 - a table
    expected: ModelPreference,
) -> None:
    assert model_preference([(M, R)], labels, has_room=has_room) == expected


def test_the_worst_of_several_models_counts() -> None:
    assert model_preference([(M, R), ("other", R)], HAS, has_room=True) == ModelPreference.HAS_ROOM
    assert model_preference([], HAS, has_room=True) == ModelPreference.NOTHING


def test_the_filter_result_lists_each_node_once() -> None:
    fits, fails = NodeFit(fits=True), NodeFit(fits=False, reason="no cards")
    nodes = [(name, fit, ModelPreference.NOTHING) for name, fit in (("a", fits), ("b", fails), ("c", fits))]
    assert msgspec.json.decode(msgspec.json.encode(filter_result(nodes))) == {
        "NodeNames": ["a", "c"],
        "FailedAndUnresolvableNodes": {"b": "no cards"},
        "Error": "",
    }


_NODES = st.tuples(
    st.just("n"),
    st.builds(NodeFit, fits=st.booleans(), score=st.floats(-1e9, 1e9)),
    st.sampled_from(ModelPreference),
)


@given(st.lists(_NODES, max_size=8), st.booleans())
def test_priorities_are_in_range_and_models_outrank_devices(nodes: list[ScoredNode], wants_models: bool) -> None:  # noqa: FBT001 - hypothesis
    found = priorities(nodes, wants_models=wants_models)
    assert len(found) == len(nodes)
    for (_, fit, models), priority in zip(nodes, found, strict=True):
        assert 0 <= priority.score <= 10
        for (_, other, others), its in zip(nodes, found, strict=True):
            if wants_models and fit.fits and other.fits and models > others:
                assert priority.score > its.score
