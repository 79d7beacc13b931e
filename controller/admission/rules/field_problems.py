"""Problems with single fields of an object that declares models: plain functions of data."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from controller.admission.errors import AdmissionRefused, InvalidQuantity, InvalidSelector, SourceNotAllowed
from controller.admission.rules.selectors import affinity_problems, selector_problems
from controller.placement.allowed_sources import AllowedSources
from shared.errors import InvalidURI, LarderError
from shared.quantity import parse_quantity
from shared.uri.model_uri import parse_declared

_MAX_BYTES = 2**63 - 1  # the range of integers in the API
Spec = Mapping[str, Any]


def refuse(problems: Iterable[LarderError]) -> None:
    """Raise all problems in one message, with the type of the first; do nothing if there are none."""
    found = list(problems)
    if found:
        raise type(found[0])("; ".join(str(problem) for problem in found))


def uri_problems(field: str, text: str, allowed: AllowedSources, *, cluster_scoped: bool) -> Iterator[LarderError]:
    """Yield InvalidURI if no source serves the URI, SourceNotAllowed if `allowed` does not include it."""
    try:
        uri = parse_declared(text, cluster_scoped=cluster_scoped)
    except InvalidURI as error:
        yield InvalidURI(f"{field}: {error}")
        return
    if refusal := allowed.refusal_of(uri):
        yield SourceNotAllowed(f"{field}: {refusal}")


def quantity_problems(spec: Spec, field: str, least: int = 1) -> Iterator[AdmissionRefused]:
    """Yield InvalidQuantity if a quantity is unreadable, below `least` or too large; a missing one is allowed."""
    value = spec.get(field)
    if value is None:
        return
    try:
        size = parse_quantity(value)
    except (ValueError, ArithmeticError) as error:
        yield InvalidQuantity(f"spec.{field}: {error}")
        return
    if not least <= size <= _MAX_BYTES:
        wrong = "small" if size < least else "large"
        yield InvalidQuantity(f"spec.{field}: {value} is too {wrong}; write a number with a unit, for example 500Gi")


def selector_errors(field: str, spec: Spec) -> Iterator[AdmissionRefused]:
    """Yield InvalidSelector for each problem with the nodeSelector and the nodeAffinity in a field."""
    checks: tuple[tuple[str, Callable[[str, Spec], Iterator[str]]], ...] = (
        ("nodeSelector", selector_problems),
        ("nodeAffinity", affinity_problems),
    )
    for name, problems_of in checks:
        for problem in problems_of(f"{field}.{name}", spec.get(name) or {}):
            yield InvalidSelector(problem)
