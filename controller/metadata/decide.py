"""Decides from a view of a model what to do for its metadata. No input or output, no clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from controller.manager.actions import Requeue, WriteSpec
from controller.manager.conditions import METADATA, ConditionUpdate
from controller.metadata.fill import fields_to_write, is_written
from controller.metadata.merge_readings import merge_readings
from controller.metadata.stored_reading import CONFLICT, MISSING, retry_at, stored_reading
from controller.metadata.view import MetadataView
from controller.models.revisions import short
from shared.api.meta import ReadMetadata
from shared.metadata.reading.attempts import FAILED, count_attempts, given_up
from shared.metadata.reading.termination_message import Reading

MAX_WAIT = timedelta(hours=24)  # most errors in a fixed list of files are permanent
# Failures of the files themselves; after any other, the values of earlier files stay, and the message says so.
_OF_FILES = (MISSING, "MetadataMalformed", "MetadataOversized")
_PERMANENT = (FAILED, CONFLICT)
_TIME_FORMAT = "%Y-%m-%d %H:%M UTC"


@dataclass(frozen=True, slots=True)
class ReadSourceMetadata:
    """Start reading the files that describe the model; the result arrives in a later view."""

    identity: str


@dataclass(frozen=True, slots=True)
class WriteMetadata:
    """Write the condition and the metadata."""

    condition: ConditionUpdate
    metadata: ReadMetadata | None


Action: TypeAlias = ReadSourceMetadata | WriteSpec | WriteMetadata | Requeue


def decide(view: MetadataView, now: datetime) -> list[Action]:
    """Return the actions, in order."""
    if view.target is None:
        return []
    if view.skip:
        message = "annotation ome.io/skip-config-parsing is true, so nothing is read"
        return [WriteMetadata(ConditionUpdate(METADATA, "Unknown", "Skipped", message), view.status.metadata)]
    if view.result is not None:
        return _finish(view, _merged(view, view.result, now), now)
    if view.stored is not None:
        return _finish(view, view.stored, now)
    if _needs_no_reading(view):
        return [
            WriteMetadata(
                ConditionUpdate(METADATA, "True", "Written", "the spec has all metadata, so nothing is read"), None
            )
        ]
    return [ReadSourceMetadata(view.identity)]


def _needs_no_reading(view: MetadataView) -> bool:
    last = view.status.metadata
    return view.spec is not None and last is None and not view.demand.refreshed and is_written(view.spec, last)


def _merged(view: MetadataView, found: Reading, now: datetime) -> ReadMetadata:
    """Return what to store after a reading of the source.

    A node's report on an earlier archive stays until a node reports on this one: the source describes neither.
    """
    last = view.stored or ReadMetadata()
    attempts = count_attempts(last.reason, last.attempts, found.reason)
    before = view.status.metadata
    from_node = before is not None and before.node != "" and bool(before.values) and found.reason == MISSING
    if found.reason in _OF_FILES and not from_node:
        before = None
    node = before.node if before is not None and from_node else ""
    return stored_reading(given_up(found, attempts), before, view.identity, attempts, now, node)


def _finish(view: MetadataView, stored: ReadMetadata, now: datetime) -> list[Action]:
    """Return the actions that show a finished reading, and that retry a failed one."""
    stored = merge_readings(stored, view.readings, now)
    fields = fields_to_write(view.spec, view.status.metadata, stored.values) if view.spec is not None else {}
    actions: list[Action] = [WriteSpec(fields)] if fields else []
    actions.append(WriteMetadata(_condition(view, stored), stored))
    if stored.reason and stored.reason not in _PERMANENT and (stored.reason == MISSING or not stored.node):
        wait_s = (retry_at(stored, MAX_WAIT) - now).total_seconds()
        actions.append(Requeue(wait_s) if wait_s > 0 else ReadSourceMetadata(view.identity))
    return actions


def _condition(view: MetadataView, stored: ReadMetadata) -> ConditionUpdate:
    if not stored.reason:
        origin = f"from the archive unpacked by node {stored.node}" if stored.node else "from the source"
        return ConditionUpdate(METADATA, "True", "Read", f"read {origin} at revision {short(view.demand.serving)}")
    next_attempt = retry_at(stored, MAX_WAIT).strftime(_TIME_FORMAT)
    retry = f"retried at {next_attempt}, or at once when annotation larder.dev/refresh changes"
    if stored.reason in _PERMANENT:
        retry = "these files are read again only when annotation larder.dev/refresh changes"
    if stored.node and stored.reason not in (MISSING, CONFLICT):
        retry = f"node {stored.node} reported this; it stands until a node can read the unpacked files"
    can_be_set = stored.reason in (*_OF_FILES, *_PERMANENT) and view.spec is not None
    by_hand = "; the fields of the spec can be set by hand" if can_be_set else ""
    earlier = "; the known values are from earlier files" if stored.values else ""
    return ConditionUpdate(METADATA, "False", stored.reason, f"{stored.message}{by_hand}{earlier}; {retry}")
