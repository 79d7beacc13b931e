"""Affinities that the API server stores although no scheduler could read them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.admission.rules.selectors import affinity_problems
from controller.placement.groups import is_member
from controller.placement.selectors import matches_affinity
from shared.api.base_model import Storage
from shared.api.model_cache_node_group import ModelCacheNodeGroup

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
LABELS = {"a": "x", "b": "8"}


def _maps(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(WORDS | st.sampled_from(["key", "operator", "values", "matchExpressions"]), inner)


WORDS = st.sampled_from(["a", "b", "none", "x", "8", "In", "NotIn", "Gt", "Exists", ""])
ANY = st.recursive(st.none() | st.booleans() | st.integers() | WORDS, lambda inner: st.lists(inner) | _maps(inner))
VALUES = st.lists(WORDS) | st.lists(st.integers()) | ANY
EXPRESSIONS = st.fixed_dictionaries({"key": WORDS | ANY, "operator": WORDS | ANY, "values": VALUES}) | ANY
TERMS = st.fixed_dictionaries({"matchExpressions": st.lists(EXPRESSIONS) | ANY, "matchFields": st.just([]) | ANY}) | ANY
AFFINITIES = st.fixed_dictionaries({REQUIRED: st.fixed_dictionaries({"nodeSelectorTerms": st.lists(TERMS)}) | ANY})


def group(affinity: object) -> ModelCacheNodeGroup:
    """A group as it comes from the API server."""
    spec = {"storageLimit": "1Gi", "nodeAffinity": affinity}
    return msgspec.convert({"metadata": {"name": "g"}, "spec": spec}, ModelCacheNodeGroup)


def required(expression: object) -> dict[str, Any]:
    return {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


@pytest.mark.parametrize(
    "affinity",
    [
        required({"key": "none", "operator": "In", "values": "x"}),
        required({"key": "a", "operator": "In", "values": "x"}),
        required({"key": "a", "operator": "NotIn", "values": 5}),
        required({"key": ["a"], "operator": "Exists"}),
        required("a"),
        {REQUIRED: "a"},
        {REQUIRED: {"nodeSelectorTerms": "a"}},
    ],
)
def test_an_affinity_of_the_wrong_shape_allows_no_node(affinity: dict[str, Any]) -> None:
    assert not is_member(group(affinity), "n", LABELS)
    storage = msgspec.convert({"storageUri": "hf://o/m", "nodeAffinity": affinity}, Storage)
    assert not matches_affinity(storage.node_affinity, "n", LABELS)


def test_numbers_are_compared_as_before() -> None:
    assert is_member(group(required({"key": "b", "operator": "Gt", "values": [7]})), "n", LABELS)


@given(affinity=AFFINITIES)
def test_any_affinity_can_be_compared_with_a_node_and_checked(affinity: dict[str, Any]) -> None:
    is_member(group(affinity), "n", LABELS)
    assert all(affinity_problems("spec.nodeAffinity", affinity))
