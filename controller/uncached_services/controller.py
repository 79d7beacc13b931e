"""The controller of Events on services whose pods have no cached model."""

from collections.abc import Iterable

from controller.manager.controller import Controller
from controller.manager.watches import itself, on
from controller.state.informer import Informer
from controller.uncached_services.keys import UncachedServiceKey
from controller.uncached_services.pods import UncachedPods
from controller.uncached_services.reconcile import UncachedServiceReconciler
from controller.uncached_services.services import KINDS
from shared.api.core import PODS, Pod


def uncached_services_controller(reconciler: UncachedServiceReconciler) -> Controller[UncachedServiceKey]:
    """Return the controller; of the pods that it watches, it keeps those that were left with their own download."""
    return Controller(
        name="uncached_services",
        key=UncachedServiceKey,
        all_keys=lambda: _services(reconciler.pods.values()),
        for_=tuple(on(pods.changed, itself, informer=_informer(pods)) for pods in reconciler.pods.values()),
        reconcile=reconciler.reconcile,
    )


def _services(known: Iterable[UncachedPods]) -> Iterable[UncachedServiceKey]:
    return (key for pods in known for key in pods.services())


def _informer(pods: UncachedPods) -> Informer[Pod]:
    kind = KINDS[pods.kind]
    name = f"pods-of-{kind.kind.lower()}s"
    return Informer(PODS, Pod, pods, label_selector=kind.selector, name=name, waited_for=False)
