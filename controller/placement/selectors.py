"""Node selectors and required node affinity, with the scheduler's semantics."""

from collections.abc import Callable, Mapping
from typing import Any

Labels = Mapping[str, str]
Terms = list[dict[str, Any]]


def matches_labels(wanted: Labels, labels: Labels) -> bool:
    """Return whether the node has all of the wanted labels."""
    return all(labels.get(key) == value for key, value in wanted.items())


def matches_affinity(affinity: Mapping[str, Any], name: str, labels: Labels) -> bool:
    """Return whether the required part of a v1.NodeAffinity allows the node; preferences are ignored."""
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    terms: Terms = required.get("nodeSelectorTerms") or []
    return any(_matches_term(term, name, labels) for term in terms)


def _matches_term(term: Mapping[str, Any], name: str, labels: Labels) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False  # an empty term matches nothing
    return all(_matches(e, labels) for e in expressions) and all(_matches(f, {"metadata.name": name}) for f in fields)


def _matches(expression: Mapping[str, Any], labels: Labels) -> bool:
    value = labels.get(expression.get("key", ""))
    values = expression.get("values") or []
    decide = _OPERATORS.get(expression.get("operator", ""))
    return decide is not None and decide(value, values)


def _compare(sign: int) -> Callable[[str | None, list[str]], bool]:
    def compare(value: str | None, values: list[str]) -> bool:
        try:
            return value is not None and sign * int(value) > sign * int(values[0])
        except (ValueError, IndexError):
            return False

    return compare


_OPERATORS: dict[str, Callable[[str | None, list[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": _compare(1),
    "Lt": _compare(-1),
}
