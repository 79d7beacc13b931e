"""Merges the nodes' reports into what is known of a model. No input or output, no clock.

Nodes are not trusted with one another's models. For files that the source does not describe, reported values count only
while all reports of values agree: from every node, and from one node over time. Once two differ, none count until the
files change or a refresh is requested. What is known of the same files only moves forward, so a lying node can remove a
description but cannot cause one write after another:

    interrupted -> failed -> values -> conflict
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controller.metadata.stored_reading import CONFLICT, MISSING, as_stored, stored_reading
from shared.api.meta import ReadMetadata
from shared.metadata.remembered import INTERRUPTED
from shared.metadata.termination_message import Reading, failed


@dataclass(frozen=True, slots=True)
class NodeReading:
    """The metadata of the files as reported by a node, the first by name of those that report the same."""

    node: str
    reading: Reading


def merge_readings(kept: ReadMetadata, reports: Sequence[NodeReading], now: datetime) -> ReadMetadata:
    """Return what is known after applying the reports; `kept` itself if they add nothing."""
    if kept.reason == CONFLICT or not (kept.reason == MISSING or kept.node):
        return kept
    values = [report for report in reports if report.reading.metadata is not None]
    if len(values) > 1:
        return _conflict(kept, values[0].node, values[1].node, now)
    if not kept.reason:
        changed = [report for report in values if _values(report) != kept.values]
        return _conflict(kept, kept.node, changed[0].node, now) if changed else kept
    if values:
        return _kept(kept, values[0].reading, values[0].node, now)
    failures = [report for report in reports if report.reading.reason != INTERRUPTED] or list(reports)
    if failures and _may_become(kept, failures[0].reading.reason):
        return _kept(kept, failures[0].reading, failures[0].node, now)
    return kept


def _values(report: NodeReading) -> dict[str, Any]:
    return as_stored(report.reading.metadata) if report.reading.metadata else {}


def _may_become(kept: ReadMetadata, reason: str) -> bool:
    """Return whether a node's failure counts: the first one for these files, or the first after an interruption."""
    of_earlier_files = kept.reason == MISSING and bool(kept.values)
    if not kept.node or of_earlier_files:
        return True
    return kept.reason == INTERRUPTED != reason


def _conflict(kept: ReadMetadata, first: str, second: str, now: datetime) -> ReadMetadata:
    if first == second:
        words = f"node {first} changed what it says of the same unpacked files; it may be damaged or taken over, so "
        return _kept(kept, failed(CONFLICT, f"{words}nothing that it said counts"), first, now)
    first, second = sorted((first, second))
    words = f"nodes {first} and {second} say different things of the same unpacked files; one of them "
    return _kept(kept, failed(CONFLICT, f"{words}may be damaged or taken over, so neither counts"), first, now)


def _kept(kept: ReadMetadata, reading: Reading, node: str, now: datetime) -> ReadMetadata:
    """Return what to keep of a node's reading; an interruption keeps what is known of earlier files."""
    before = kept if reading.reason == INTERRUPTED else None
    return stored_reading(reading, before, kept.identity, kept.attempts, now, node)
