"""Each scorer says whether requests fit, and what share of the resource is in use afterwards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.devices.scorers import DEFAULT, ENUM, LEFTOVER, ScoredUse, enum, leftover, scorer_of

amounts = st.integers(0, 2**63 - 1)


@pytest.mark.parametrize(
    ("allocatable", "by_pod", "by_node", "requests", "init", "expected"),
    [
        (8, 0, 0, [2, 2], False, ScoredUse(fits=True, score=0.5, used_by_pod=4, used_by_node=4)),
        (8, 4, 6, [2], False, ScoredUse(fits=True, score=1.0, used_by_pod=6, used_by_node=8)),
        (8, 4, 6, [3], False, ScoredUse(fits=False, score=1.0, used_by_pod=7, used_by_node=9)),
        (8, 4, 6, [3], True, ScoredUse(fits=True, score=0.75, used_by_pod=4, used_by_node=6)),
        (8, 4, 6, [6], True, ScoredUse(fits=True, score=1.0, used_by_pod=6, used_by_node=8)),
        (0, 0, 0, [], False, ScoredUse(fits=True, score=0.0, used_by_pod=0, used_by_node=0)),
        (0, 0, 0, [1], False, ScoredUse(fits=False, score=0.0, used_by_pod=1, used_by_node=1)),
    ],
)
def test_leftover_reports_whether_requests_fit_and_the_share_in_use(
    allocatable: int, by_pod: int, by_node: int, requests: list[int], *, init: bool, expected: ScoredUse
) -> None:
    assert leftover(allocatable, by_pod, by_node, requests, init=init) == expected


@pytest.mark.parametrize(
    ("allocatable", "by_pod", "requests", "expected"),
    [
        (0b0110, 0, [0b0100, 0b1000], ScoredUse(fits=True, score=0.5, used_by_pod=0b0100, used_by_node=0)),
        (0b0110, 0b0010, [0b0100], ScoredUse(fits=True, score=1.0, used_by_pod=0b0110, used_by_node=0)),
        (0b0110, 0, [0b1001], ScoredUse(fits=False, score=0.0, used_by_pod=0, used_by_node=0)),
        (0b0110, 0, [], ScoredUse(fits=True, score=0.0, used_by_pod=0, used_by_node=0)),
        (0, 0, [0], ScoredUse(fits=True, score=0.0, used_by_pod=0, used_by_node=0)),
    ],
)
def test_enum_reports_whether_requests_fit_and_the_share_of_bits_in_use(
    allocatable: int, by_pod: int, requests: list[int], expected: ScoredUse
) -> None:
    assert enum(allocatable, by_pod, 0b0110, requests, init=False) == expected


@pytest.mark.parametrize(
    ("resource", "number", "scorer"),
    [
        ("resource/group/gpu/0/cards", DEFAULT, leftover),
        ("resource/group/gpu/0/enumType", DEFAULT, enum),
        ("resource/group/gpu/0/EnumType", DEFAULT, enum),
        ("resource/group/enum/0/cards", DEFAULT, leftover),
        ("resource/group/gpu/0/enumType", LEFTOVER, leftover),
        ("resource/group/gpu/0/cards", ENUM, enum),
        ("resource/group/gpu/0/cards", 7, leftover),
    ],
)
def test_a_number_or_the_name_chooses_the_scorer(resource: str, number: int, scorer: object) -> None:
    assert scorer_of(resource, number) is scorer


@given(amounts, amounts, amounts, st.lists(amounts, max_size=4), st.booleans())
def test_scores_lie_between_zero_and_one(
    allocatable: int,
    by_pod: int,
    more: int,
    requests: list[int],
    init: bool,  # noqa: FBT001 - hypothesis passes it by place
) -> None:
    for scorer in (leftover, enum):
        scored = scorer(allocatable, by_pod, by_pod + more, requests, init=init)
        assert 0.0 <= scored.score <= 1.0
        assert scored.used_by_node >= 0
