"""Reads the agent's store. Only the agent may change it, so the driver reads marks and file status without a lock."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from agent.dra.devices import DiskSnapshot
from agent.metadata.read_request import COMMAND, SnapshotReadRequest
from agent.store.inventory import Inventory
from agent.store.layout import Layout
from agent.store.snapshot import damaged_paths, read_snapshot
from shared.errors import LarderError
from shared.metadata.model_metadata import Metadata
from shared.metadata.reading.attempts import INTERRUPTED
from shared.metadata.reading.process import Child
from shared.metadata.reading.termination_message import failed

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_AGAIN_S = 600.0  # between attempts to read metadata while the machine is overloaded


@dataclass(slots=True)
class SnapshotScanner:
    """Finds complete snapshots; all methods but `described` block.

    `scan` and `read_metadata` must not overlap with themselves, but may run concurrently with every other method.
    """

    root: Path
    _layout: Layout = field(init=False)
    _inventory: Inventory = field(init=False)
    _metadata: dict[str, Metadata] = field(default_factory=dict, init=False)  # by manifest
    _due_s: dict[str, float] = field(default_factory=dict, init=False)  # manifests whose reading was interrupted

    def __post_init__(self) -> None:
        self._layout = Layout(self.root)
        self._inventory = Inventory(self._layout)

    def scan(self) -> Mapping[str, DiskSnapshot]:
        """Return the complete snapshots by device name, including damaged ones, without their metadata."""
        found = (
            DiskSnapshot(s.id, s.revision, str(s.path), s.size, tuple(s.damaged), manifest=s.manifest_digest)
            for s in self._inventory.snapshots()
        )
        return {model.device: model for model in found}

    def current(self, model: DiskSnapshot) -> DiskSnapshot | None:
        """Return a snapshot's current state, or None if it is gone."""
        snapshot = read_snapshot(self._layout, Path(model.path))
        return replace(model, damaged=tuple(damaged_paths(self._layout, snapshot))) if snapshot else None

    def described(self, model: DiskSnapshot) -> DiskSnapshot:
        """Return a snapshot with the metadata that has been read."""
        known = self._metadata.get(model.manifest, Metadata())
        architecture = next(iter(known.architectures), known.model_type)
        return replace(model, architecture=architecture, parameters=known.parameters or 0)

    def read_metadata(self, models: Collection[DiskSnapshot]) -> None:
        """Read the metadata of these snapshots, once per manifest and in child processes; drop that of all others."""
        digests = {model.manifest for model in models}
        self._metadata = {digest: known for digest, known in self._metadata.items() if digest in digests}
        self._due_s = {digest: due_s for digest, due_s in self._due_s.items() if digest in digests}
        for model in models:
            due = time.monotonic() >= self._due_s.get(model.manifest, 0.0)
            if due and not model.damaged and model.manifest not in self._metadata:
                self._read(model)

    def _read(self, model: DiskSnapshot) -> None:
        try:
            reading = Child(COMMAND).read(SnapshotReadRequest(folder=model.path))
        except LarderError as error:
            reading = failed(INTERRUPTED, str(error))
        if reading.reason:
            _LOG.warning("metadata_not_read", model=model.id, reason=reading.reason, message=reading.message)
        if reading.reason == INTERRUPTED:  # the machine was at fault, not the files
            self._due_s[model.manifest] = time.monotonic() + _AGAIN_S
        else:
            self._metadata[model.manifest] = reading.metadata or Metadata()
