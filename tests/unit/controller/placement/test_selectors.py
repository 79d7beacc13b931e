import pytest

from controller.placement.selectors import matches_affinity, matches_labels

LABELS = {"gpu": "a100", "count": "8", "zone": "z1"}


def required(*terms: dict[str, object]) -> dict[str, object]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}


def test_labels_must_all_match() -> None:
    assert matches_labels({}, LABELS)
    assert matches_labels({"gpu": "a100", "zone": "z1"}, LABELS)
    assert not matches_labels({"gpu": "a100", "zone": "z2"}, LABELS)
    assert not matches_labels({"missing": ""}, LABELS)


@pytest.mark.parametrize(
    ("operator", "key", "values", "expected"),
    [
        ("In", "gpu", ["a100", "h100"], True),
        ("In", "gpu", ["h100"], False),
        ("In", "none", ["x"], False),
        ("NotIn", "gpu", ["h100"], True),
        ("NotIn", "none", ["x"], True),
        ("NotIn", "gpu", ["a100"], False),
        ("Exists", "gpu", [], True),
        ("Exists", "none", [], False),
        ("DoesNotExist", "none", [], True),
        ("DoesNotExist", "gpu", [], False),
        ("Gt", "count", ["7"], True),
        ("Gt", "count", ["8"], False),
        ("Lt", "count", ["9"], True),
        ("Gt", "gpu", ["7"], False),
        ("Lt", "count", [], False),
        ("Sometimes", "gpu", ["a100"], False),
    ],
)
def test_affinity_operators_match_as_in_kubernetes(operator: str, key: str, values: list[str], expected: bool) -> None:  # noqa: FBT001 - the expectation
    expression = {"key": key, "operator": operator, "values": values}
    assert matches_affinity(required({"matchExpressions": [expression]}), "n", LABELS) is expected


def test_any_term_may_match_but_all_of_its_expressions_must() -> None:
    good = {"key": "gpu", "operator": "Exists"}
    bad = {"key": "none", "operator": "Exists"}
    assert matches_affinity(required({"matchExpressions": [bad]}, {"matchExpressions": [good]}), "n", LABELS)
    assert not matches_affinity(required({"matchExpressions": [bad, good]}), "n", LABELS)


def test_an_empty_term_matches_nothing_and_preferences_do_not_count() -> None:
    assert not matches_affinity(required({}), "n", LABELS)
    assert matches_affinity({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}, "n", LABELS)
    assert matches_affinity({}, "n", {})


def test_match_fields_compare_the_node_name() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    assert matches_affinity(required({"matchFields": [field]}), "n1", {})
    assert not matches_affinity(required({"matchFields": [field]}), "n2", {})
