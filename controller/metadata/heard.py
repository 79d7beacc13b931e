"""What the words of nodes change in what is known of a model. No input or output, no clock.

Nodes are not trusted with one another's models. Of files that the source does not describe, values count while all
nodes that report some say the same. Once two differ, none count, until other files or a refresh: a node that lies can
take a description away, and cannot make it change all the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from controller.metadata.kept import CONFLICT, MISSING, kept_reading
from shared.api.meta import ReadMetadata
from shared.metadata.remembered import INTERRUPTED
from shared.metadata.termination_message import Reading, failed


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What the files are by the word of a node, the first by name of those that say the same."""

    node: str
    reading: Reading


def with_reports(kept: ReadMetadata, reports: Sequence[NodeReport], now: datetime) -> ReadMetadata:
    """Return what is known once nodes were heard; `kept` itself where they add nothing."""
    if kept.reason == CONFLICT or not (kept.reason == MISSING or kept.node):
        return kept
    values = [report for report in reports if report.reading.metadata is not None]
    if len(values) > 1:
        first, second = values[:2]
        words = f"nodes {first.node} and {second.node} say different things of the same unpacked files; one of them "
        return _kept(kept, failed(CONFLICT, f"{words}may be damaged or taken over, so neither counts"), first.node, now)
    if values:
        return _kept(kept, values[0].reading, values[0].node, now)
    if reports and (kept.reason or not kept.values):
        return _kept(kept, reports[0].reading, reports[0].node, now)
    return kept


def _kept(kept: ReadMetadata, reading: Reading, node: str, now: datetime) -> ReadMetadata:
    """Return what a node's reading leaves; the same as before where it says the same."""
    before = kept if reading.reason == INTERRUPTED else None
    new = kept_reading(reading, before, kept.identity, kept.attempts, now, node)
    same = (new.reason, new.message, new.values) == (kept.reason, kept.message, kept.values)
    return kept if same and kept.node else new
