"""What to do about a toy. No input or output, no clock."""

from dataclasses import dataclass
from typing import TypeAlias

from tests.integration.manager.toys.api import ToyStatus
from tests.integration.manager.toys.view import ToyView


@dataclass(frozen=True, slots=True)
class Make:
    """Write a text to the ConfigMap."""

    shown: str


@dataclass(frozen=True, slots=True)
class WriteStatus:
    status: ToyStatus


Action: TypeAlias = Make | WriteStatus


def decide(view: ToyView) -> list[Action]:
    shown = f"{view.toy.spec.text} in {view.colour}"
    if view.made is None or view.made.data.get("shown") != shown:
        return [Make(shown)]
    status = ToyStatus(observed_generation=view.toy.metadata.generation, shown=shown)
    return [WriteStatus(status)] if status != view.toy.status else []
