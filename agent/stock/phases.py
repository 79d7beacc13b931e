"""How the agent reports where each entry stands."""

from typing import assert_never

from agent.stock.labels import is_ready_by_another
from agent.stock.world import (
    Fetching,
    Prepared,
    Preparing,
    Removed,
    Removing,
    Reserved,
    Trouble,
    World,
    is_claim,
)
from shared.api.model_node import Entry, EntryState, EntryStatus, Phase
from shared.names import ready_label

_LONGEST_MESSAGE = 2000


def statuses(world: World) -> list[EntryStatus]:
    """Return the status of every entry, and of every snapshot that no entry names; `since` is left empty."""
    entries = world.entries
    reported = [s for e in entries.values() if (s := _of_entry(e, world))]
    return reported + [_unnamed(key, world) for key in sorted(world.held) if key not in entries]


def _of_entry(entry: Entry, world: World) -> EntryStatus | None:
    match entry.state:
        case EntryState.PRESENT:
            return None if is_claim(entry) else _present(entry, world)
        case EntryState.DRAINING:
            return _draining(entry, world)
        case EntryState.ABSENT:
            return _absent(entry, world)
        case _:
            message = f"the state {entry.state!r} is not known to this agent, so the files are kept; upgrade the agent"
            return _status(entry, Phase.UNKNOWN, Trouble("UnknownState", message))


def _unnamed(key: tuple[str, str], world: World) -> EntryStatus:
    held = world.held[key]
    message = f"{len(held.damaged)} files are damaged" if held.damaged else ""
    return EntryStatus(id=key[0], revision=key[1], phase=Phase.UNKNOWN, message=message, verified=held.verified)


def _present(entry: Entry, world: World) -> EntryStatus:
    held, setback = world.held.get(entry.key), world.setback(entry)
    trouble = setback.trouble if setback else None
    if held and world.is_sound(entry.key, entry.manifest):
        phase = Phase.READY if world.has_labels(entry.key) else Phase.DOWNLOADING
        return _status(entry, phase, None, held.verified)
    if held:
        return _status(entry, Phase.REPAIRING, trouble or _damage(held.damaged))
    work = world.works.get(entry.key)
    match work:
        case Fetching():
            return _status(entry, Phase.DOWNLOADING, work.trouble)
        case Reserved():
            return _status(entry, Phase.WAITING, None)
        case Preparing() | Prepared() | Removing() | Removed() | None:
            failed = setback and not setback.passing
            return _status(entry, Phase.FAILED if failed else Phase.PENDING, trouble)
        case _:
            assert_never(work)


def _damage(paths: tuple[str, ...]) -> Trouble | None:
    if not paths:
        return None
    return Trouble("FilesDamaged", f"{len(paths)} files are not what was committed, {paths[0]} among them")


def _draining(entry: Entry, world: World) -> EntryStatus:
    """The acknowledgement comes after the label is gone from the Node, or is another revision's."""
    at_work = isinstance(world.works.get(entry.key), Fetching)
    if at_work or not _ready_is_not_ours(entry, world):
        return _status(
            entry, Phase.READY if entry.key in world.held else Phase.PENDING, None, observed=EntryState.PRESENT
        )
    return _status(entry, Phase.DRAINING, None)


def _ready_is_not_ours(entry: Entry, world: World) -> bool:
    return ready_label(entry.id) not in world.labels or is_ready_by_another(world, entry.key)


def _absent(entry: Entry, world: World) -> EntryStatus:
    if isinstance(world.works.get(entry.key), Removed) and entry.key not in world.held:
        return _status(entry, Phase.ABSENT, None)
    setback = world.setback(entry)
    return _status(entry, Phase.DRAINING, setback.trouble if setback else None, observed=EntryState.DRAINING)


def _status(
    entry: Entry, phase: Phase, trouble: Trouble | None, verified: str = "", observed: str | None = None
) -> EntryStatus:
    return EntryStatus(
        id=entry.id,
        revision=entry.revision,
        phase=phase,
        observed=entry.state if observed is None else observed,
        reason=trouble.reason if trouble else "",
        message=trouble.message[:_LONGEST_MESSAGE] if trouble else "",
        verified=verified,
    )
