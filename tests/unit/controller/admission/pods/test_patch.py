"""JSON patches turn one document into the other when an independent library applies them."""

from typing import Any

import jsonpatch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.admission.pods.patch import json_patch

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=4)
KEYS = st.text(alphabet="ab/~0 1", max_size=4)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3), max_leaves=12)
UNHURRIED = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # the machine may be busy
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)


@UNHURRIED
@given(DOCUMENTS, DOCUMENTS)
def test_the_patch_turns_one_document_into_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert jsonpatch.apply_patch(before, json_patch(before, after)) == after


@UNHURRIED
@given(DOCUMENTS)
def test_equal_documents_need_no_patch(document: dict[str, Any]) -> None:
    assert json_patch(document, document) == []


def test_the_patch_contains_only_the_differences() -> None:
    before = {"a": {"x/y": "1"}, "l": [{"n": 1}, {"n": 2}], "gone": 1}
    after = {"a": {"x/y": "2", "m~n": "3"}, "l": [{"n": 1}, {"n": 3}]}
    assert json_patch(before, after) == [
        {"op": "remove", "path": "/gone"},
        {"op": "replace", "path": "/a/x~1y", "value": "2"},
        {"op": "add", "path": "/a/m~0n", "value": "3"},
        {"op": "replace", "path": "/l/1/n", "value": 3},
    ]


def test_the_number_one_and_true_are_different_values() -> None:
    assert json_patch({"a": 1}, {"a": True}) == [{"op": "replace", "path": "/a", "value": True}]
