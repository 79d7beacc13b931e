"""What to do next: a plain function of what is wanted, what is there and what is under way."""

from collections.abc import Iterator
from itertools import islice

from agent.stock.actions import Action, ChangeLabels, Forget, Inspect, Prepare, Remove, Reserve, Skip, Start, Stop
from agent.stock.labels import is_ready_by_another, label_changes
from agent.stock.turns import by_rank, by_turn
from agent.stock.world import (
    Fetching,
    Key,
    Prepared,
    Preparing,
    Removed,
    Removing,
    Reserved,
    Work,
    World,
    is_claim,
    is_present,
)
from shared.api.model_node import Entry, EntryState, ModelNode
from shared.names import ready_label, snapshot_label

_MOST_PREPARING = 8  # at one time: the controller's API counts what a node asks for


def decide(world: World) -> list[Action]:
    """Return the next actions in the order to take them; an empty list means: wait for a change."""
    actions: list[Action] = []
    changes = label_changes(world)
    if changes and world.patch_due_s <= world.now_s:
        actions.append(ChangeLabels(tuple(changes.items())))
    if world.authority:
        actions += _stops(world)
        actions += _removals(world, world.authority)
        actions += _beginnings(world)
        actions += _reservations(world)
        actions += _starts(world)
        actions += [Skip(e) for e in world.entries.values() if is_claim(e) and e.key not in world.skipped]
        actions += _inspections(world)
    return actions


def next_due_s(world: World) -> float | None:
    """Return when the clock alone will make `decide` answer otherwise, in the loop's seconds."""
    dues = [s.due_s for key, s in world.setbacks.items() if key in world.entries]
    dues += [due_s for key, due_s in world.readings_due.items() if key in world.entries]
    if label_changes(world):
        dues.append(world.patch_due_s)
    return min((d for d in dues if d > world.now_s), default=None)


def _stops(world: World) -> Iterator[Action]:
    entries = world.entries
    for key, work in world.works.items():
        yield from _end(key, work, entries.get(key), world)


def _end(key: Key, work: Work, entry: Entry | None, world: World) -> Iterator[Action]:
    wanted = entry is not None and is_present(entry)
    match work:
        case Fetching(stopping=True) | Removing():
            return
        case Removed():
            if entry is None or entry.state != EntryState.ABSENT or key in world.held:  # somebody put files back
                yield Forget(key)
        case Fetching() | Preparing() if entry is None or not wanted or not _may_go_on(entry, work, world):
            yield Stop(key)
        case Prepared() | Reserved() if entry is None or not wanted or not _still_needed(entry, work, world):
            yield Forget(key)
        case _:
            return


def _may_go_on(entry: Entry, work: Fetching | Preparing, world: World) -> bool:
    if work.manifest != entry.manifest:
        return False
    return isinstance(work, Preparing) or entry.granted or entry.key in world.held


def _still_needed(entry: Entry, work: Prepared | Reserved, world: World) -> bool:
    return work.manifest == entry.manifest and not world.is_sound(entry.key, entry.manifest)


def _removals(world: World, node: ModelNode) -> Iterator[Action]:
    """Nothing else removes: the state is written out, and neither label of the snapshot is on the Node any more."""
    for entry in node.spec.entries:
        if entry.state != EntryState.ABSENT or entry.key in world.works or world.blocked(entry):
            continue
        labelled = ready_label(entry.id) in world.labels and not is_ready_by_another(world, entry.key)
        if snapshot_label(*entry.key) not in world.labels and not labelled:
            yield Remove(entry, node.metadata.uid, node.metadata.generation)


def _beginnings(world: World) -> Iterator[Action]:
    free = _MOST_PREPARING - sum(isinstance(w, Preparing) for w in world.works.values())
    due = [e for e in _missing(world) if e.key not in world.works and e.manifest and not world.blocked(e)]
    yield from (Prepare(entry) for entry in by_turn(world, due, Preparing)[: max(free, 0)])


def _reservations(world: World) -> Iterator[Action]:
    for entry in by_rank(world, _missing(world)):
        work = world.works.get(entry.key)
        if isinstance(work, Prepared) and work.manifest == entry.manifest and not world.blocked(entry):
            yield Reserve(entry)


def _starts(world: World) -> Iterator[Action]:
    free = world.slots - sum(isinstance(w, Fetching) for w in world.works.values())
    ready = [e for e in _missing(world) if _may_start(world, e)]
    yield from (Start(e, e.key in world.held) for e in by_turn(world, ready, Fetching)[: max(free, 0)])


def _may_start(world: World, entry: Entry) -> bool:
    work = world.works.get(entry.key)
    reserved = isinstance(work, Reserved) and work.manifest == entry.manifest
    return reserved and (entry.granted or entry.key in world.held)


def _inspections(world: World) -> Iterator[Action]:
    """One after the other, and only what pods get already: nothing waits for it."""
    if world.inspecting is None:
        due = (e for e in world.entries.values() if is_present(e) and world.wants_inspection(e))
        yield from (Inspect(entry) for entry in islice(due, 1))


def _missing(world: World) -> Iterator[Entry]:
    for entry in world.entries.values():
        if is_present(entry) and not world.is_sound(entry.key, entry.manifest):
            yield entry
