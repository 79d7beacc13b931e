"""Gathers what a decision on a toy needs, from memory."""

from dataclasses import dataclass, field

from controller.state.signal import Signal
from shared.kube.cache import Cache
from shared.kube.objects import Key
from tests.integration.manager.toys.api import ConfigMap, Toy
from tests.integration.manager.toys.view import ToyView

COLOUR = "colour"  # the ConfigMap in each namespace that has its colour
_PLAIN = "plain"


@dataclass(slots=True)
class ToyObserver:
    toy_changed: Signal[Toy | None, Toy | None] = field(default_factory=Signal)
    made_changed: Signal[ConfigMap | None, ConfigMap | None] = field(default_factory=Signal)
    colour_changed: Signal[ConfigMap | None, ConfigMap | None] = field(default_factory=Signal)
    toys: Cache[Toy] = field(init=False)
    made: Cache[ConfigMap] = field(init=False)
    colours: Cache[ConfigMap] = field(init=False)

    def __post_init__(self) -> None:
        self.toys = Cache(self.toy_changed.emit)
        self.made = Cache(self.made_changed.emit)
        self.colours = Cache(self.colour_changed.emit)

    def view(self, key: Key) -> ToyView | None:
        toy, colour = self.toys.get(key), self.colours.get(Key(key.namespace, COLOUR))
        if toy is None:
            return None
        return ToyView(toy, self.made.get(key), colour.data.get("name", _PLAIN) if colour else _PLAIN)
