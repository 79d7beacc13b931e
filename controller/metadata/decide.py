"""Decides from a view of a model what to do for its metadata. No input or output, no clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from controller.manager.actions import Requeue, WriteSpec
from controller.manager.conditions import METADATA, ConditionUpdate
from controller.metadata.fill import fields_to_write, is_written
from controller.metadata.node_readings import merge_readings
from controller.metadata.stored_reading import CONFLICT, MISSING, retry_at, stored_reading
from controller.metadata.view import MetadataView
from controller.models.revisions import short
from shared.api.meta import ReadMetadata
from shared.metadata.remembered import FAILED, count_attempts, given_up
from shared.metadata.termination_message import Reading

LONGEST_WAIT = timedelta(hours=24)  # most errors in a fixed list of files are permanent
# Failures of the files themselves; after any other, the values of earlier files stay, and the message says so.
_OF_FILES = (MISSING, "MetadataMalformed", "MetadataOversized")
_FOR_GOOD = (FAILED, CONFLICT)
_WHEN = "%Y-%m-%d %H:%M UTC"


@dataclass(frozen=True, slots=True)
class Read:
    """Start reading the files that describe the model; the result arrives in a later view."""

    identity: str


@dataclass(frozen=True, slots=True)
class WriteMetadata:
    """Write the condition, and the metadata known from now on."""

    condition: ConditionUpdate
    metadata: ReadMetadata | None


Action: TypeAlias = Read | WriteSpec | WriteMetadata | Requeue


def decide(view: MetadataView, now: datetime) -> list[Action]:
    """Return the actions, in order."""
    if view.target is None:
        return []
    if view.skip:
        words = "annotation ome.io/skip-config-parsing is true: nothing is read"
        return [WriteMetadata(ConditionUpdate(METADATA, "Unknown", "Skipped", words), view.status.metadata)]
    if view.result is not None:
        return _settled(view, _taken(view, view.result, now), now)
    if view.stored is not None:
        return _settled(view, view.stored, now)
    if _needs_none(view):
        return [
            WriteMetadata(
                ConditionUpdate(METADATA, "True", "Written", "the spec has all of it, so nothing is read"), None
            )
        ]
    return [Read(view.identity)]


def _needs_none(view: MetadataView) -> bool:
    last = view.status.metadata
    return view.spec is not None and last is None and not view.demand.refreshed and is_written(view.spec, last)


def _taken(view: MetadataView, found: Reading, now: datetime) -> ReadMetadata:
    """Return what to keep of a reading of the source.

    A node's report on an earlier archive stays until a node reports on this one, because the source alone cannot tell.
    """
    last = view.stored or ReadMetadata()
    attempts = count_attempts(last.reason, last.attempts, found.reason)
    before = view.status.metadata
    told = before is not None and before.node != "" and bool(before.values) and found.reason == MISSING
    if found.reason in _OF_FILES and not told:
        before = None
    node = before.node if before is not None and told else ""
    return stored_reading(given_up(found, attempts), before, view.identity, attempts, now, node)


def _settled(view: MetadataView, kept: ReadMetadata, now: datetime) -> list[Action]:
    """Return the actions that show a finished reading, and that retry a failed one."""
    kept = merge_readings(kept, view.readings, now)
    fields = fields_to_write(view.spec, view.status.metadata, kept.values) if view.spec is not None else {}
    actions: list[Action] = [WriteSpec(fields)] if fields else []
    actions.append(WriteMetadata(_told(view, kept), kept))
    if kept.reason and kept.reason not in _FOR_GOOD and (kept.reason == MISSING or not kept.node):
        wait_s = (retry_at(kept, LONGEST_WAIT) - now).total_seconds()
        actions.append(Requeue(wait_s) if wait_s > 0 else Read(view.identity))
    return actions


def _told(view: MetadataView, kept: ReadMetadata) -> ConditionUpdate:
    if not kept.reason:
        place = f"from what node {kept.node} unpacked" if kept.node else "from the source"
        return ConditionUpdate(METADATA, "True", "Read", f"read {place} of revision {short(view.demand.serving)}")
    again = retry_at(kept, LONGEST_WAIT).strftime(_WHEN)
    retry = f"read again at {again}, or at once with another value of annotation larder.dev/refresh"
    if kept.reason in _FOR_GOOD:
        retry = "these files are read again only with another value of annotation larder.dev/refresh"
    if kept.node and kept.reason not in (MISSING, CONFLICT):
        retry = f"node {kept.node} read it in what it unpacked; the word of another that can read it counts"
    can_be_written = kept.reason in (*_OF_FILES, *_FOR_GOOD) and view.spec is not None
    by_hand = "; the fields of the spec can be written by hand" if can_be_written else ""
    earlier = "; what is known is of earlier files" if kept.values else ""
    return ConditionUpdate(METADATA, "False", kept.reason, f"{kept.message}{by_hand}{earlier}; {retry}")
