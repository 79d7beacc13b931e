"""Everything that a decision about the metadata of one model on nodes depends on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.metadata.merge_readings import NodeReading
from controller.metadata.stored_reading import MISSING
from controller.placement.demand import Demand, Resolution
from shared.api.meta import ModelStatus, ReadMetadata
from shared.metadata.reading.attempts import READER, identity_of
from shared.metadata.reading.termination_message import Reading


@dataclass(frozen=True, slots=True)
class MetadataView:
    """One model; `spec` is the object's, as JSON, without empty fields, or None if the kind has no such fields.

    `skip`: the user does not want it read. `conflict`: another object has its id. `result` is that of the reading
    `identity`, not yet in any status. `readings` are the distinct reports of nodes on what they unpacked.
    """

    demand: Demand
    generation: int
    status: ModelStatus
    spec: Mapping[str, Any] | None = None
    skip: bool = False
    conflict: bool = False
    result: Reading | None = None
    readings: tuple[NodeReading, ...] = ()

    @property
    def target(self) -> Resolution | None:
        """The files that the metadata describes: those that new pods get; None while they are not the resolved ones."""
        demand = self.demand
        if not demand.placeable or self.conflict or demand.resolution is None:
            return None
        return demand.resolution if demand.serving == demand.resolution.revision else None

    @property
    def identity(self) -> str:
        """What identifies a reading: the list of files, the last answered refresh, and the reader."""
        return identity_of(self.target.manifest, self.demand.refreshed, str(READER)) if self.target else ""

    @property
    def stored(self) -> ReadMetadata | None:
        """What is known about exactly these files."""
        last = self.status.metadata
        return last if last is not None and self.identity and last.identity == self.identity else None

    @property
    def may_be_unpacked(self) -> bool:
        """Whether the source did not describe these files, so that nodes' reports on what they unpacked are used."""
        return self.stored is not None and (self.stored.reason == MISSING or self.stored.node != "")
