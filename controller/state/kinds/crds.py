"""Polls who owns the kinds that other products also define, and their versions; both may change at any time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from controller.state.kinds.crd_compat import missing_fields_message
from controller.state.kinds.ownership import Ownership
from shared.api.crds import crd
from shared.api.kinds import DEFINITIONS, MODEL_NODE, Definition
from shared.kube.collection import get_object
from shared.kube.errors import KubeError, Refused
from shared.kube.objects import Object
from shared.kube.transport import Kube

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OUR_LABEL = ("app.kubernetes.io/part-of", "larder")
_POLL_S = 20.0
_RETRY_S = 1.0
_SHARED_KINDS = tuple(d for d in DEFINITIONS if d is not MODEL_NODE)
_LOST = (
    f"has lost the label {OUR_LABEL[0]}={OUR_LABEL[1]}, so Larder no longer manages its objects, and nodes keep their "
    "files; restore the label, or delete the objects that you no longer need"
)
_log = structlog.get_logger()


class ServedDefinition(Object, frozen=True, kw_only=True):
    """A CustomResourceDefinition as the cluster serves it."""

    spec: dict[str, Any] = {}


@dataclass(slots=True)
class Definitions:
    """Updates an ownership from the cluster's definitions; `synced` is set once all of them have been read.

    A missing definition is not ours: another product could define the kind at any moment, and we must not claim that.
    `served` holds, by kind, an event that is set once the definition exists.
    """

    kube: Kube
    ownership: Ownership
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    synced: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    served: dict[str, asyncio.Event] = field(default_factory=dict, init=False)
    _wanted: dict[str, tuple[Definition, dict[str, Any]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for definition in _SHARED_KINDS:
            self.add(definition)

    def add(self, definition: Definition) -> None:
        """Also poll this definition, besides those of Larder's own kinds."""
        if definition.kind not in self.served:
            self.served[definition.kind] = asyncio.Event()
            self._wanted[definition.kind] = definition, crd(definition)

    async def run(self) -> None:
        """Poll until cancelled; a definition that cannot be read keeps its last state."""
        while True:
            try:
                for definition, wanted in self._wanted.values():
                    await self._read(definition, wanted)
            except KubeError as error:
                is_forbidden = isinstance(error, Refused) and error.is_forbidden
                hint = "the controller's ClusterRole lacks a rule; upgrade the chart" if is_forbidden else ""
                _log.warning("definitions_unread", error=str(error), hint=hint)
            else:
                self.synced.set()
            await self.sleep(_POLL_S if self.synced.is_set() else _RETRY_S)

    async def _read(self, definition: Definition, wanted: dict[str, Any]) -> None:
        found = await get_object(self.kube, f"{PATH}/{definition.name}", ServedDefinition)
        label, value = OUR_LABEL
        foreign = found is None or found.metadata.labels.get(label) != value
        if found is not None:
            self.served[definition.kind].set()
        elif not self.synced.is_set():
            _log.info("kind_not_served", definition=definition.name)
        if self.ownership.set_foreign(definition.kind, foreign=foreign):
            lost = self.synced.is_set() and found is not None and foreign
            hint = f"{definition.name} {_LOST}" if lost else ""
            (_log.warning if lost else _log.info)(
                "definition_changed_hands", kind=definition.kind, ours=not foreign, hint=hint
            )
        # another product's definition lacks our fields, so state that must survive goes into annotations
        message = missing_fields_message(definition.name, wanted, {"spec": found.spec}) if found and not foreign else ""
        if self.ownership.set_missing_fields(definition.kind, message) and message:
            _log.warning("definition_outdated", kind=definition.kind, hint=message)
