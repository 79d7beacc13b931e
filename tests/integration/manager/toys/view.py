"""All that is known of one toy when it is decided."""

from dataclasses import dataclass

from tests.integration.manager.toys.api import ConfigMap, Toy


@dataclass(frozen=True, slots=True)
class ToyView:
    toy: Toy
    made: ConfigMap | None
    colour: str
