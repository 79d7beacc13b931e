"""The fields that an older definition drops."""

import copy
from typing import Any

import pytest

from controller.state.kinds.crd_compat import missing_fields_message
from shared.api.crds import crd
from shared.api.kinds import CLUSTER_BASE_MODEL, CLUSTER_MODEL_CACHE, DEFINITIONS, Definition

NAME = CLUSTER_MODEL_CACHE.name


def older(definition: Definition, *path: str) -> dict[str, Any]:
    """Return a definition without one property, named by the properties above it."""
    made = copy.deepcopy(crd(definition))
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path[:-1]:
        schema = schema["properties"][name]
        schema = schema.get("items", schema)
    del schema["properties"][path[-1]]
    return made


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda d: d.kind)
def test_the_current_definition_keeps_all_fields(definition: Definition) -> None:
    assert missing_fields_message(definition.name, crd(definition), crd(definition)) == ""


@pytest.mark.parametrize("path", [("status", "selection"), ("spec", "allowPatterns"), ("status", "nodes", "percent")])
def test_fields_that_would_be_dropped_are_named(path: tuple[str, ...]) -> None:
    message = missing_fields_message(NAME, crd(CLUSTER_MODEL_CACHE), older(CLUSTER_MODEL_CACHE, *path))
    assert message.startswith(f"the CustomResourceDefinition {NAME} is older than this controller")
    assert path[-1] in message
    assert "upgrade the larder-crds chart" in message


def test_an_open_definition_without_our_fields_drops_nothing() -> None:
    served = older(CLUSTER_BASE_MODEL, "status", "selection")
    assert missing_fields_message(CLUSTER_BASE_MODEL.name, crd(CLUSTER_BASE_MODEL), served) == ""


def test_unknown_fields_are_not_an_error() -> None:
    assert (
        missing_fields_message(NAME, older(CLUSTER_MODEL_CACHE, "status", "selection"), crd(CLUSTER_MODEL_CACHE)) == ""
    )


@pytest.mark.parametrize("served", [{}, {"spec": {}}, {"spec": {"versions": [{"name": "v1alpha1"}]}}])
def test_a_definition_of_unexpected_shape_is_still_compared(served: dict[str, Any]) -> None:
    assert isinstance(missing_fields_message(NAME, crd(CLUSTER_MODEL_CACHE), served), str)
