"""The whole offer of a plugin is validated before any of it is advertised."""

from enum import Enum
from typing import Any

import pytest

from agent.devices.validate_offer import offer_of
from shared.devices.info import NodeInfo
from tests.builders.device_plugins import CARD

PREFIXES = ("larder.dev/", "example.com/cards-")


def offered(**fields: Any) -> NodeInfo:
    return offer_of(NodeInfo(**fields), "n1", PREFIXES)


def test_an_offer_is_a_copy_of_what_the_plugin_filled_in() -> None:
    filled = NodeInfo("other", {CARD: 2}, {CARD: 1}, {CARD: 1}, {CARD: 1}, {"larder.dev/a": 2}, {}, {"unknown": 1})
    found = offer_of(filled, "n1", PREFIXES)
    for values in (filled.capacity, filled.allocatable, filled.used, filled.scorer, filled.kube_cap):
        values["late"] = 1
    assert found == NodeInfo("n1", {CARD: 2}, {CARD: 1}, {CARD: 1}, {CARD: 1}, {"larder.dev/a": 2}, {"larder.dev/a": 2})


class _Resource(str, Enum):  # noqa: UP042 - the older way, which plugins use
    CARD = "larder.dev/card"


class _Number(int, Enum):
    FEW = 3


def test_enums_are_advertised_with_their_values() -> None:
    """Their texts are `_Resource.CARD` and `_Number.FEW`, and the API server would refuse the status for ever."""
    found = offered(kube_cap={_Resource.CARD: _Number.FEW})
    assert [f"{name}: {value}" for name, value in found.kube_cap.items()] == ["larder.dev/card: 3"]


def test_a_missing_capacity_or_allocatable_is_taken_from_the_other() -> None:
    found = offered(kube_cap={"larder.dev/a": 3}, kube_alloc={"example.com/cards-b": 4})
    assert found.kube_cap == found.kube_alloc == {"larder.dev/a": 3, "example.com/cards-b": 4}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"allocatable": [CARD]}, "allocatable is a list, not an object"),
        ({"allocatable": {CARD: -1}}, "is -1, not between 0"),
        ({"allocatable": {CARD: 1.5}}, "not a whole number"),
        ({"capacity": {7: 1}}, "not a string"),
        ({"used": {"a" * 600: 1}}, "a name of 600 characters"),
        ({"allocatable": {"resource/group/\ud800/0/x": 1}}, "surrogates not allowed"),
        ({"scorer": {CARD: "1"}}, "a string of 1 characters, not a whole number"),
        ({"allocatable": {f"a/{n}": 1 for n in range(5000)}}, "the limit is 4096"),
        ({"kube_cap": None}, "kube_cap is not a dict"),
        ({"kube_alloc": {"larder.dev/a": True}}, "not a whole number"),
        ({"kube_alloc": {"larder.dev/a": -1}}, "is -1, not a whole number"),
        ({"kube_alloc": {"larder.dev/a": 2**63}}, "not a whole number"),
        ({"kube_alloc": {f"larder.dev/a{n}": 1 for n in range(65)}}, "at most 64 are allowed"),
        ({"kube_cap": {"larder.dev/a": 1}, "kube_alloc": {"larder.dev/a": 2}}, "is 2, more than its capacity 1"),
    ],
)
def test_an_invalid_offer_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        offered(**fields)


@pytest.mark.parametrize(
    "name",
    ["cpu", "memory", "nvidia.com/gpu", "example.com/card", "kubernetes.io/x", "larder.dev.evil.com/a", "Larder.dev/a"],
)
def test_only_allowed_prefixes_pass(name: str) -> None:
    with pytest.raises(ValueError, match="kube_alloc has"):
        offered(kube_alloc={name: 1})


@pytest.mark.parametrize(
    "name", ["larder.dev/", "larder.dev/a/b", "larder.dev/-a", "larder.dev/a b", f"larder.dev/{'a' * 64}", 7]
)
def test_only_qualified_names_pass(name: Any) -> None:
    with pytest.raises(ValueError, match="not the name of an extended resource"):
        offered(kube_alloc={name: 1})
