"""Reads the agent's store. Only the agent may change it, so the driver reads marks and file status without a lock."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from agent.dra.devices import HeldModel
from agent.metadata.order import COMMAND, SnapshotOrder
from agent.store.inventory import Inventory
from agent.store.layout import Layout
from agent.store.snapshot import Snapshot, damaged_paths, read_snapshot
from shared.errors import LarderError
from shared.metadata.reading.process import Child
from shared.metadata.report import Metadata

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(slots=True)
class SnapshotScanner:
    """Finds complete snapshots; blocks. Use it from one thread at a time.

    Architecture and number of parameters are read once per manifest, in a child process.
    """

    root: Path
    _layout: Layout = field(init=False)
    _inventory: Inventory = field(init=False)
    _metadata: dict[str, Metadata] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._layout = Layout(self.root)
        self._inventory = Inventory(self._layout)

    def scan(self) -> Mapping[str, HeldModel]:
        """Return the complete snapshots by device name, including damaged ones."""
        snapshots = self._inventory.snapshots()
        self._forget({snapshot.manifest_digest for snapshot in snapshots})
        found = map(self._held, snapshots)
        return {model.device: model for model in found}

    def current(self, model: HeldModel) -> HeldModel | None:
        """Return a snapshot's current state, or None if it is gone; may run during a scan."""
        snapshot = read_snapshot(self._layout, Path(model.path))
        return replace(model, damaged=tuple(damaged_paths(self._layout, snapshot))) if snapshot else None

    def _held(self, snapshot: Snapshot) -> HeldModel:
        metadata = self._read(snapshot)
        return HeldModel(
            snapshot.id,
            snapshot.revision,
            str(snapshot.path),
            snapshot.size,
            tuple(snapshot.damaged),
            next(iter(metadata.architectures), metadata.model_type),
            metadata.parameters or 0,
        )

    def _read(self, snapshot: Snapshot) -> Metadata:
        known = self._metadata.get(snapshot.manifest_digest)
        if known is not None or snapshot.damaged:
            return known or Metadata()
        try:
            reading = Child(COMMAND).read(SnapshotOrder(folder=str(snapshot.path)))
        except LarderError as error:
            _LOG.warning("metadata_not_read", model=snapshot.id, message=str(error))
            return Metadata()
        found = reading.metadata or Metadata()
        self._metadata[snapshot.manifest_digest] = found
        return found

    def _forget(self, digests: set[str]) -> None:
        for digest in self._metadata.keys() - digests:
            del self._metadata[digest]
