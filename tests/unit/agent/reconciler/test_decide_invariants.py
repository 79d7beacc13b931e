"""Invariants of every decision, and the convergence of repeated decisions."""

from dataclasses import replace
from typing import Any, assert_never

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.reconciler.actions import (
    Action,
    ChangeLabels,
    DownloadEntry,
    FetchManifest,
    ReadSnapshotMetadata,
    ReleaseEntry,
    Remove,
    RemoveStartupTaint,
    Reserve,
    SkipEntry,
    StopWork,
)
from agent.reconciler.decide import decide
from agent.reconciler.observation import (
    Downloading,
    FetchingManifest,
    HeldSnapshot,
    Key,
    ManifestFetched,
    Observation,
    Removed,
    Removing,
    Reserved,
    StartupTaintState,
    Work,
)
from agent.reconciler.status import entry_statuses
from shared.api.model_node import Entry
from shared.api.unpacked_metadata import UnpackedMetadata
from shared.metadata.reading.attempts import identity_of_files
from shared.names import READY_PREFIX, draining_label, fetching_label, ready_label, snapshot_label
from tests.builders.observations import UID, entry, failure, model_node

DIGESTS = ["a" * 64, "b" * 64]
KEYS: list[Key] = [(i, r) for i in ("llama", "qwen") for r in ("r1", "r2")]
FAMILIES = (snapshot_label, fetching_label, draining_label)
STATES = ["Present", "Present", "Draining", "Absent", "Frozen", ""]
URIS = ["hf://org/m@r1", "hf://org/m@r1", "pvc://ns/claim/path"]

digests = st.sampled_from(DIGESTS)
helds = st.builds(HeldSnapshot, digests, st.sampled_from([(), (), ("config.json",)]), st.just("digest"), st.booleans())
works: st.SearchStrategy[Work] = st.one_of(
    st.builds(FetchingManifest, digests),
    st.builds(ManifestFetched, digests),
    st.builds(Reserved, digests),
    st.builds(Downloading, digests, st.none(), st.booleans(), st.booleans()),
    st.just(Removing()),
    st.just(Removed()),
)


@st.composite
def entries(draw: st.DrawFn, key: Key) -> Entry:
    return entry(
        *key,
        state=draw(st.sampled_from(STATES)),
        uri=draw(st.sampled_from(URIS)),
        manifest=draw(digests),
        granted=draw(st.booleans()),
        in_use=draw(st.booleans()),
        priority=draw(st.integers(0, 2)),
    )


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    named = [draw(entries(key)) for key in draw(st.lists(st.sampled_from(KEYS), unique=True))]
    node = model_node(named, uid=draw(st.sampled_from([UID, UID, UID, "other", ""])))
    labels = {ready_label(i) for i, _ in KEYS} | {label(*k) for k in KEYS for label in FAMILIES}
    failed = [e for e in named if draw(st.integers(0, 5)) == 0]
    return Observation(
        now_s=100.0,
        node_uid=draw(st.sampled_from([UID, UID, UID, ""])),
        labels=dict.fromkeys(draw(st.sets(st.sampled_from(sorted(labels)))), "true"),
        synced=draw(st.sampled_from([True, True, False])),
        model_node=draw(st.sampled_from([node, node, node, None])),
        held=draw(st.dictionaries(st.sampled_from(KEYS), helds)),
        works=draw(st.dictionaries(st.sampled_from(KEYS), works)),
        failures={e.key: failure(e, draw(st.sampled_from([90.0, 110.0]))) for e in failed},
        slots=draw(st.integers(1, 3)),
        startup_taint=StartupTaintState(present=draw(st.booleans())),
    )


def label_changes_in(actions: list[Action]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for action in actions:
        if isinstance(action, ChangeLabels):
            found |= dict(action.changes)
    return found


def labels_are_set_only_for_files_that_the_model_node_wants(observation: Observation, actions: list[Action]) -> None:
    borne: set[str] = set()
    for wanted_entry in observation.entries.values():
        held = observation.held.get(wanted_entry.key)
        if held and not held.damaged and not wanted_entry.uri.startswith("pvc://"):
            if wanted_entry.state in ("Present", "Draining"):
                borne.add(snapshot_label(*wanted_entry.key))
            if wanted_entry.state == "Present":
                borne.add(ready_label(wanted_entry.id))
        if held is None and isinstance(observation.works.get(wanted_entry.key), Downloading):
            borne.add(fetching_label(*wanted_entry.key))
        if held and wanted_entry.state in ("Draining", "Absent"):
            borne.add(draining_label(*wanted_entry.key))
    set_now = {k for k, v in label_changes_in(actions).items() if v}
    assert set_now <= borne


def labels_of_intact_snapshots_are_dropped_only_before_a_removal(
    observation: Observation, actions: list[Action]
) -> None:
    dropped = {k for k, v in label_changes_in(actions).items() if v is None}
    for key, held in observation.held.items():
        wanted_entry = observation.entries.get(key)
        if (
            held.damaged
            or (wanted_entry and wanted_entry.uri.startswith("pvc://"))
            or isinstance(observation.works.get(key), Removing)
        ):
            continue
        state = wanted_entry.state if wanted_entry else "Unnamed"
        assert snapshot_label(*key) not in dropped or state == "Absent"
        assert ready_label(key[0]) not in dropped or state in ("Absent", "Draining")


def labels_of_damaged_snapshots_stay_while_pods_use_them(observation: Observation, actions: list[Action]) -> None:
    dropped = {k for k, v in label_changes_in(actions).items() if v is None}
    for wanted_entry in observation.entries.values():
        used = wanted_entry.in_use and wanted_entry.key in observation.held and wanted_entry.uri.startswith("hf://")
        used = used and not isinstance(observation.works.get(wanted_entry.key), Removing)
        if used and wanted_entry.state != "Absent":
            assert snapshot_label(*wanted_entry.key) not in dropped


def files_are_removed_only_for_absent_entries_without_labels(observation: Observation, actions: list[Action]) -> None:
    for action in actions:
        if isinstance(action, Remove):
            node = observation.model_node
            assert observation.synced
            assert node is not None
            assert node.spec.node_uid == observation.node_uid == UID
            assert action.entry in node.spec.entries
            assert action.entry.state == "Absent"
            assert snapshot_label(*action.entry.key) not in observation.labels
            labelled = action.entry.key in observation.held and not action.entry.uri.startswith("pvc://")
            assert not labelled or draining_label(*action.entry.key) in observation.labels
            assert action.entry.key not in observation.works


def without_a_model_node_of_this_node_labels_are_only_dropped(observation: Observation, actions: list[Action]) -> None:
    if observation.own_model_node is None:
        assert all(isinstance(a, ChangeLabels) for a in actions)
        assert not any(label_changes_in(actions).values())


def the_startup_taint_is_removed_only_when_every_model_is_there(
    observation: Observation, actions: list[Action]
) -> None:
    if any(isinstance(action, RemoveStartupTaint) for action in actions):
        assert observation.startup_taint.present
        assert observation.own_model_node is not None
        for wanted_entry in observation.entries.values():
            if wanted_entry.state == "Present" and not wanted_entry.uri.startswith("pvc://"):
                assert snapshot_label(*wanted_entry.key) in observation.labels
                assert observation.is_intact(wanted_entry.key, wanted_entry.manifest)


def downloads_start_only_with_space_a_grant_and_a_slot(observation: Observation, actions: list[Action]) -> None:
    running = sum(isinstance(w, Downloading) for w in observation.works.values())
    begun = [a for a in actions if isinstance(a, DownloadEntry)]
    assert not begun or running + len(begun) <= observation.slots
    for action in begun:
        work = observation.works[action.entry.key]
        assert isinstance(work, Reserved)
        assert work.manifest == action.entry.manifest
        assert action.entry.granted or action.repair
        assert action.entry.state == "Present"
        assert not action.entry.uri.startswith("pvc://")


def each_entry_has_one_action_at_a_time(_: Observation, actions: list[Action]) -> None:
    keys = [k for a in actions if (k := _key(a)) is not None]
    assert len(keys) == len(set(keys))


def each_phase_matches_what_was_observed(observation: Observation, _: list[Action]) -> None:
    for status in entry_statuses(observation):
        wanted_entry = observation.entries.get(status.key)
        if status.phase == "Ready":
            assert status.key in observation.held
        if status.phase == "Absent":
            assert wanted_entry is not None
            assert wanted_entry.state == "Absent"
            assert status.key not in observation.held
        if (
            status.phase == "Draining"
            and status.observed == "Draining"
            and wanted_entry
            and wanted_entry.state == "Draining"
        ):
            assert not isinstance(observation.works.get(status.key), Downloading)


INVARIANTS = (
    labels_are_set_only_for_files_that_the_model_node_wants,
    labels_of_intact_snapshots_are_dropped_only_before_a_removal,
    labels_of_damaged_snapshots_stay_while_pods_use_them,
    files_are_removed_only_for_absent_entries_without_labels,
    without_a_model_node_of_this_node_labels_are_only_dropped,
    the_startup_taint_is_removed_only_when_every_model_is_there,
    downloads_start_only_with_space_a_grant_and_a_slot,
    each_entry_has_one_action_at_a_time,
    each_phase_matches_what_was_observed,
)


@settings(max_examples=200)
@given(observations())
def test_no_decision_breaks_an_invariant(observation: Observation) -> None:
    """All invariants are checked on one decision, because drawing an observation takes far longer than a check."""
    actions = decide(observation)
    for check in INVARIANTS:
        check(observation, actions)


@given(observations())
def test_repeated_decisions_converge_on_the_state_that_the_model_node_wants(observation: Observation) -> None:
    rested = settle(observation)
    for wanted_entry in rested.entries.values():
        if wanted_entry.uri.startswith("pvc://"):
            continue
        held = rested.held.get(wanted_entry.key)
        was_held = wanted_entry.key in observation.held and not isinstance(
            observation.works.get(wanted_entry.key), Removing
        )
        if wanted_entry.state == "Present" and (wanted_entry.granted or was_held):
            assert held is not None
            assert replace(held, unpacked=False) == HeldSnapshot(wanted_entry.manifest, (), "digest")
            assert (rested.metadata_of(wanted_entry.key) is not None) == held.unpacked
            assert rested.has_labels(wanted_entry.key)
        if wanted_entry.state == "Absent":
            assert held is None
            assert {snapshot_label(*wanted_entry.key), draining_label(*wanted_entry.key)}.isdisjoint(rested.labels)
    for key in observation.held:
        wish_or_none = rested.entries.get(key)
        going = isinstance(observation.works.get(key), Removing) or (wish_or_none and wish_or_none.state == "Absent")
        assert key in rested.held or going


def settle(observation: Observation) -> Observation:
    """Let every job succeed and every wait elapse, until there is nothing left to decide."""
    observation = replace(observation, failures={})
    for _ in range(60):
        ended = _end_jobs(observation)
        actions = decide(ended)
        if not actions and ended == observation:
            return observation
        observation = ended
        for action in actions:
            observation = _acted(observation, action)
    raise AssertionError("the loop does not come to rest")


def _end_jobs(observation: Observation) -> Observation:
    held, left = dict(observation.held), dict(observation.works)
    for key, work in observation.works.items():
        match work:
            case FetchingManifest(manifest):
                left[key] = ManifestFetched(manifest)
            case Downloading(manifest, _, stopping, _):
                del left[key]
                if not stopping:
                    held[key] = HeldSnapshot(manifest, (), "digest")
            case Removing():
                held.pop(key, None)
                left[key] = Removed()
            case ManifestFetched() | Reserved() | Removed():
                pass
            case _:
                assert_never(work)
    return replace(observation, held=held, works=left)


def _acted(observation: Observation, action: Action) -> Observation:
    left = dict(observation.works)
    match action:
        case ChangeLabels() | RemoveStartupTaint() | SkipEntry() | ReadSnapshotMetadata():
            return _noted(observation, action)
        case FetchManifest(wanted_entry):
            left[wanted_entry.key] = FetchingManifest(wanted_entry.manifest)
        case Reserve(wanted_entry):
            left[wanted_entry.key] = Reserved(wanted_entry.manifest)
        case DownloadEntry(wanted_entry):
            left[wanted_entry.key] = Downloading(wanted_entry.manifest, has_received=True)
        case StopWork(key):
            work = left.pop(key)
            if isinstance(work, Downloading):
                left[key] = replace(work, stopping=True)
        case ReleaseEntry(key):
            del left[key]
        case Remove(wanted_entry):
            left[wanted_entry.key] = Removing()
        case _:
            assert_never(action)
    return replace(observation, works=left)


def _noted(
    observation: Observation, action: ChangeLabels | RemoveStartupTaint | SkipEntry | ReadSnapshotMetadata
) -> Observation:
    match action:
        case RemoveStartupTaint():
            return replace(observation, startup_taint=replace(observation.startup_taint, present=False))
        case ChangeLabels(changes):
            labels: dict[str, Any] = {**observation.labels, **dict(changes)}
            return replace(observation, labels={k: v for k, v in labels.items() if v is not None})
        case SkipEntry(wanted_entry):
            return replace(observation, skipped=observation.skipped | {wanted_entry.key})
        case ReadSnapshotMetadata(wanted_entry):
            read = UnpackedMetadata(identity=identity_of_files(observation.held[wanted_entry.key].manifest))
            return replace(observation, metadata={**observation.metadata, wanted_entry.key: read})


def _key(action: Action) -> Key | None:
    match action:
        case ChangeLabels() | RemoveStartupTaint() | SkipEntry() | ReadSnapshotMetadata():
            return None
        case StopWork(key) | ReleaseEntry(key):
            return key
        case FetchManifest(wanted_entry) | Reserve(wanted_entry) | DownloadEntry(wanted_entry) | Remove(wanted_entry):
            return wanted_entry.key
        case _:
            assert_never(action)


def test_only_ready_labels_have_the_ready_prefix() -> None:
    assert ready_label("x").startswith(READY_PREFIX)
    assert not snapshot_label("x", "r").startswith(READY_PREFIX)
