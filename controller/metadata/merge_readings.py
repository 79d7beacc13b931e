"""Merges the nodes' reports into the stored metadata of a model. No input or output, no clock.

Nodes are not trusted with one another's models. For files that the source does not describe, reported values count only
while all reports agree: those of different nodes, and those of one node over time. Once two differ, none count until
the files change or a refresh is requested. What is known about the same files only moves forward, so a lying node can
remove a description but cannot cause one write after another:

    interrupted -> failed -> values -> conflict
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controller.metadata.stored_reading import CONFLICT, MISSING, as_stored, stored_reading
from shared.api.meta import ReadMetadata
from shared.metadata.reading.attempts import INTERRUPTED
from shared.metadata.reading.termination_message import Reading, failed


@dataclass(frozen=True, slots=True)
class NodeReading:
    """The metadata of the files as reported by a node, the first by name of those that report the same."""

    node: str
    reading: Reading


def merge_readings(stored: ReadMetadata, reports: Sequence[NodeReading], now: datetime) -> ReadMetadata:
    """Return the stored metadata after applying the reports; `stored` itself if they add nothing."""
    if stored.reason == CONFLICT or not (stored.reason == MISSING or stored.node):
        return stored
    values = [report for report in reports if report.reading.metadata is not None]
    if len(values) > 1:
        return _conflict(stored, values[0].node, values[1].node, now)
    if not stored.reason:
        changed = [report for report in values if _values(report) != stored.values]
        return _conflict(stored, stored.node, changed[0].node, now) if changed else stored
    if values:
        return _updated(stored, values[0].reading, values[0].node, now)
    failures = [report for report in reports if report.reading.reason != INTERRUPTED] or list(reports)
    if failures and _counts(stored, failures[0].reading.reason):
        return _updated(stored, failures[0].reading, failures[0].node, now)
    return stored


def _values(report: NodeReading) -> dict[str, Any]:
    return as_stored(report.reading.metadata) if report.reading.metadata else {}


def _counts(stored: ReadMetadata, reason: str) -> bool:
    """Return whether a node's failure counts: the first one for these files, or the first after an interruption."""
    of_earlier_files = stored.reason == MISSING and bool(stored.values)
    if not stored.node or of_earlier_files:
        return True
    return stored.reason == INTERRUPTED != reason


def _conflict(stored: ReadMetadata, first: str, second: str, now: datetime) -> ReadMetadata:
    if first == second:
        message = f"node {first} reported different metadata for the same unpacked files; its reports are ignored, "
        return _updated(stored, failed(CONFLICT, f"{message}because it may be damaged or compromised"), first, now)
    first, second = sorted((first, second))
    message = f"nodes {first} and {second} report different metadata for the same unpacked files; both are ignored, "
    return _updated(stored, failed(CONFLICT, f"{message}because one may be damaged or compromised"), first, now)


def _updated(stored: ReadMetadata, reading: Reading, node: str, now: datetime) -> ReadMetadata:
    """Return what to store after a node's reading; an interruption keeps the values of earlier files."""
    before = stored if reading.reason == INTERRUPTED else None
    return stored_reading(reading, before, stored.identity, stored.attempts, now, node)
