"""Validates node selectors; evaluating them is left to placement."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from shared.api.node_affinity import shape_problem

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WHOLE_NUMBER = re.compile(r"-?[0-9]+")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")


def selector_problems(field: str, selector: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a map of labels."""
    for key, value in selector.items():
        if not _is_key(key):
            yield f"{field}: {key!r} is not a label key; write NAME or PREFIX/NAME, for example nvidia.com/gpu.product"
        if value and not _NAME.fullmatch(value):
            yield f"{field}[{key}]: {value!r} is not a label value; write up to 63 letters, digits, -, _ and ."


def affinity_problems(field: str, affinity: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a v1.NodeAffinity."""
    if problem := shape_problem(affinity):
        yield f"{field} is not a v1.NodeAffinity: {problem}; correct that part"
        return
    if unknown := sorted(affinity.keys() - {_REQUIRED, _PREFERRED}):
        yield f"{field}: {', '.join(unknown)} is not a field of a node affinity; write {_REQUIRED}.nodeSelectorTerms"
    required = affinity.get(_REQUIRED)
    if required is None:
        return
    terms = required.get("nodeSelectorTerms")
    if not terms:
        yield f"{field}.{_REQUIRED}: has no nodeSelectorTerms, so it matches no node; add at least one term"
        return
    for index, term in enumerate(terms):
        yield from _term_problems(f"{field}.{_REQUIRED}.nodeSelectorTerms[{index}]", term)


def _term_problems(field: str, term: Mapping[str, Any]) -> Iterator[str]:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        yield f"{field}: is empty, so it matches no node; add matchExpressions"
    for index, expression in enumerate(expressions):
        yield from _expression_problems(f"{field}.matchExpressions[{index}]", expression, _OPERATORS)
    for index, expression in enumerate(fields):
        yield from _expression_problems(f"{field}.matchFields[{index}]", expression, _FIELD_OPERATORS)


def _expression_problems(field: str, expression: Mapping[str, Any], operators: tuple[str, ...]) -> Iterator[str]:
    key, operator, values = expression.get("key", ""), expression.get("operator", ""), expression.get("values") or []
    if not _is_key(key):
        yield f"{field}.key: {key!r} is not a label key; write NAME or PREFIX/NAME"
    if operator not in operators:
        yield f"{field}.operator: {operator!r} is not an operator; use one of {', '.join(operators)}"
    elif any(not isinstance(value, str) for value in values):
        yield f"{field}.values: write strings, for example {[str(value) for value in values]}"
    elif operator in ("In", "NotIn") and not values:
        yield f"{field}.values: {operator} needs at least one value"
    elif operator in ("Exists", "DoesNotExist") and values:
        yield f"{field}.values: {operator} takes no values"
    elif operator in ("Gt", "Lt") and not (len(values) == 1 and _WHOLE_NUMBER.fullmatch(values[0])):
        yield f"{field}.values: {operator} needs exactly one whole number"


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return bool(_NAME.fullmatch(name)) and (not slash or bool(_PREFIX.fullmatch(prefix)))
