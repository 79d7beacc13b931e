"""Everything that a decision about a toy needs."""

from dataclasses import dataclass

from tests.integration.manager.toys.api import ConfigMap, Toy


@dataclass(frozen=True, slots=True)
class ToyView:
    toy: Toy
    made: ConfigMap | None
    colour: str
