"""Toys: the kind that is reconciled, the objects that it owns, and what it watches."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from controller.manager.controller import Controller
from controller.manager.watches import on
from controller.replica import Replica
from controller.state.informer import Informer
from shared.kube.objects import Key, Object
from tests.integration.manager.toys.act import LABEL, ToyActor
from tests.integration.manager.toys.api import TOY, ConfigMap, Toy
from tests.integration.manager.toys.observe import COLOUR, ToyObserver
from tests.integration.manager.toys.reconcile import ToyReconciler

CONFIG_MAPS = "/api/v1/configmaps"
COLOUR_LABEL = f"toys.example.com/{COLOUR}"


@dataclass(frozen=True, slots=True)
class ToyKey:
    namespace: str
    name: str

    @property
    def flow(self) -> Hashable:
        return self.namespace


def toys_controller(replica: Replica) -> Controller[ToyKey]:
    observer = ToyObserver()
    reconciler = ToyReconciler(observer, ToyActor(replica.kube))
    toys = Informer(TOY.path, Toy, observer.toys, TOY)
    made = Informer(CONFIG_MAPS, ConfigMap, observer.made, label_selector=LABEL, name="toymaps")
    colours = Informer(CONFIG_MAPS, ConfigMap, observer.colours, label_selector=COLOUR_LABEL, name="colours")

    def of_colour(before: ConfigMap | None, after: ConfigMap | None) -> Iterator[ToyKey]:
        colour = after or before
        namespace = colour.metadata.namespace if colour else ""
        return (_key(toy) for toy in observer.toys if toy.metadata.namespace == namespace)

    return Controller(
        name="toys",
        key=ToyKey,
        all_keys=lambda: (_key(toy) for toy in observer.toys),
        for_=(on(observer.toy_changed, _of, informer=toys),),
        owns=(on(observer.made_changed, _of, informer=made),),
        watches=(on(observer.colour_changed, of_colour, informer=colours),),
        reconcile=lambda key: reconciler.reconcile(Key(key.namespace, key.name)),
    )


def _of(before: Object | None, after: Object | None) -> Iterator[ToyKey]:
    return (_key(found) for found in (after or before,) if found is not None)


def _key(found: Object) -> ToyKey:
    return ToyKey(found.metadata.namespace, found.metadata.name)
