"""No sequence of specs, results, failures and stops ends the agent, or leaves its node different from the spec."""

import shutil
import tempfile
from pathlib import Path
from typing import TypedDict

import structlog
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent.reconciler.observation import Key, Removed
from shared.api.model_node import Entry, ModelNode, ModelNodeSpec
from shared.errors import InsufficientStorage
from shared.kube.objects import Meta
from shared.manifest import File, Manifest, build_manifest
from shared.names import ready_label, snapshot_label
from tests.unit.agent.reconciler.node_rig import NODE_UID, NodeRig

KEYS: list[Key] = [("llama", "r1"), ("llama", "r2"), ("qwen", "r1")]
SIZE = 5000
STATES = ["Present", "Present", "Present", "Draining", "Absent", "Frozen"]


class AnyBug(Exception):
    """An error that the code does not expect, anywhere."""


class RequestedSelection(TypedDict):
    """The fields that vary between entries of the spec."""

    key: Key
    state: str
    granted: bool
    variant: int
    priority: int
    in_use: bool
    claim: bool


entries = st.fixed_dictionaries(
    {
        "key": st.sampled_from(KEYS),
        "state": st.sampled_from(STATES),
        "granted": st.sampled_from([True] * 4 + [False]),
        "variant": st.sampled_from([0, 0, 1]),
        "priority": st.integers(0, 2),
        "in_use": st.booleans(),
        "claim": st.sampled_from([False] * 7 + [True]),
    }
)


class EntryMachine(RuleBasedStateMachine):
    """One agent, around which anything changes in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.quiet = structlog.testing.capture_logs()  # formatting tracebacks would take most of the time
        self.quiet.__enter__()
        self.folder = Path(tempfile.mkdtemp(prefix="entries-"))
        self.offered = {key: [self._offer(key, count) for count in (1, 2)] for key in KEYS}
        self.rig = NodeRig(self.folder, {m.digest: m for both in self.offered.values() for m in both})
        self.wanted: dict[Key, RequestedSelection] = {}
        self.limit, self.uid, self.generation = 0, NODE_UID, 0
        self.bugs = 0

    def _offer(self, key: Key, count: int) -> Manifest:
        """Add a model of `count` files to the source."""
        directory = self.folder / "source" / "-".join(key)
        directory.mkdir(parents=True, exist_ok=True)
        files = []
        for number in range(count):
            (directory / f"{number}.bin").write_bytes(f"{key} {number}".encode().ljust(SIZE, b"."))
            files.append(File(f"{number}.bin", SIZE))
        return build_manifest(f"local://{directory}", key[1], files)

    # Events.

    @initialize(wanted=st.lists(entries, min_size=1, max_size=3, unique_by=lambda e: e["key"]))
    def begin(self, wanted: list[RequestedSelection]) -> None:
        self.wanted = {requested["key"]: requested for requested in wanted}
        self._deliver()

    @rule(requested=entries)
    def entry_changes(self, requested: RequestedSelection) -> None:
        self.wanted[requested["key"]] = requested
        self._deliver()

    @rule(gone=st.sets(st.sampled_from(KEYS), min_size=1))
    def entries_go(self, gone: set[Key]) -> None:
        self.wanted = {key: requested for key, requested in self.wanted.items() if key not in gone}
        self._deliver()

    @rule(state=st.sampled_from(["Present", "Draining", "Absent"]))
    def all_entries_change(self, state: str) -> None:
        self.wanted = {key: {**requested, "state": state, "claim": False} for key, requested in self.wanted.items()}
        self._deliver()

    @rule(limit=st.sampled_from([0, 0, SIZE, 100 * SIZE]), uid=st.sampled_from([NODE_UID, NODE_UID, "another"]))
    def node_changes(self, limit: int, uid: str) -> None:
        self.limit, self.uid = limit, uid
        self._deliver()

    @rule()
    def model_node_changes_unseen(self) -> None:
        self._write()

    @rule()
    def model_node_goes(self) -> None:
        self.rig.cluster.model_node = None
        self.rig.deliver()

    @rule(steps=st.integers(1, 12), threads_first=st.booleans())
    def all_goes_well_for_a_while(self, steps: int, *, threads_first: bool) -> None:
        for _ in range(steps):
            if self.rig.threads.waiting and (threads_first or not self.rig.answers.waiting):
                self.rig.work(0)
            elif self.rig.answers.waiting:
                self.rig.answer(0)

    @rule(index=st.integers(0, 9))
    def work_ends(self, index: int) -> None:
        if not self.rig.threads.waiting:
            return
        self.rig.work(index)

    @rule(index=st.integers(0, 9))
    def work_meets_a_bug(self, index: int) -> None:
        if not self.rig.threads.waiting:
            return
        self.bugs += 1
        self.rig.disk.fault = AnyBug("in a thread")
        self.rig.work(index)

    @rule(index=st.integers(0, 9))
    def call_is_answered(self, index: int) -> None:
        if not self.rig.answers.waiting:
            return
        self.rig.answer(index)

    @rule(index=st.integers(0, 9))
    def call_fails(self, index: int) -> None:
        if not self.rig.answers.waiting:
            return
        self.rig.answer(index, fails=True)

    @rule(index=st.integers(0, 9))
    def call_meets_a_bug(self, index: int) -> None:
        if not self.rig.answers.waiting:
            return
        self.bugs += 1
        self.rig.answer(index, AnyBug("in a call"))

    @rule(seconds=st.sampled_from([1.0, 60.0, 7200.0]))
    def time_passes(self, seconds: float) -> None:
        self.rig.wait(seconds)

    @rule()
    def others_fill_the_disk(self) -> None:
        self.rig.executor.downloads.stop_all(InsufficientStorage("others have written to it"))
        self.rig.turn()

    @rule()
    def source_goes_or_comes_back(self) -> None:
        here, away = self.folder / "source", self.folder / "away"
        here.rename(away) if here.exists() else away.rename(here)

    @rule(key=st.sampled_from(KEYS))
    def somebody_removes_a_file(self, key: Key) -> None:
        path = self.rig.store.root / "models" / key[0] / key[1]
        if path.exists():
            path.chmod(0o755)
            (path / "0.bin").unlink(missing_ok=True)
            path.chmod(0o555)
            self.rig.reconciler.scanner.request_scan()
            self.rig.turn()

    # Invariants.

    @invariant()
    def the_agent_lives(self) -> None:
        assert not self.rig.main.done(), self.rig.main.exception()

    @invariant()
    def only_the_bugs_of_the_test_are_met(self) -> None:
        assert sum(self.rig.activity.internal_errors.counts.values()) <= self.bugs

    @invariant()
    def downloads_keep_to_their_slots(self) -> None:
        assert len(self.rig.activity.running) <= self.rig.slots

    def teardown(self) -> None:
        """Let the agent settle, and check that disk, labels and reservations match the last spec."""
        try:
            self._settle()
            self._check()
        finally:
            self.rig.close()
            shutil.rmtree(self.folder)
            self.quiet.__exit__(None, None, None)

    def _settle(self) -> None:
        if (away := self.folder / "away").exists():
            away.rename(self.folder / "source")
        self.rig.disk.fault = None
        # files in use would keep another list of the same revision waiting
        self.wanted = {key: {**one, "granted": True, "in_use": False} for key, one in self.wanted.items()}
        self.limit, self.uid = 0, NODE_UID
        self._deliver()
        for _ in range(6):
            self.rig.rest()
            self.rig.reconciler.scanner.request_scan()
            self.rig.wait(2 * 86400.0)
        self.rig.rest()

    def _check(self) -> None:
        assert not self.rig.main.done()
        node = self.rig.cluster.model_node
        assert node is not None
        held = {(s.id, s.revision): s for s in self.rig.store.snapshots.all()}
        for entry in node.spec.entries:
            labels = {ready_label(entry.id), snapshot_label(*entry.key)}
            if entry.state == "Present" and not entry.uri.startswith("pvc:"):
                assert held[entry.key].manifest_digest == entry.manifest
                assert not held[entry.key].damaged
                assert labels <= self.rig.cluster.labels.keys()
            if entry.state == "Absent":
                assert entry.key not in held
                assert snapshot_label(*entry.key) not in self.rig.cluster.labels
        assert self.rig.store.space.reserved_bytes() == 0
        assert all(isinstance(work, Removed) for work in self.rig.cache.works.values())
        assert not self.rig.activity.running
        assert not self.rig.activity.removals

    def _deliver(self) -> None:
        self._write()
        self.rig.deliver()

    def _write(self) -> None:
        self.generation += 1
        self.rig.cluster.model_node = ModelNode(
            metadata=Meta(name="n1", uid="mn-1", generation=self.generation),
            spec=ModelNodeSpec(
                node_uid=self.uid, entries=[self._entry(**w) for w in self.wanted.values()], storage_limit=self.limit
            ),
        )

    def _entry(
        self, key: Key, *, state: str, granted: bool, variant: int, priority: int, in_use: bool, claim: bool
    ) -> Entry:
        manifest = self.offered[key][variant]
        return Entry(
            id=key[0],
            revision=key[1],
            uri="pvc://ns/claim/path" if claim else manifest.uri,
            manifest=manifest.digest,
            size=manifest.size_bytes,
            state=state,
            granted=granted,
            priority=priority,
            in_use=in_use,
        )


TestEntryMachine = EntryMachine.TestCase
TestEntryMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def requested(key: Key, state: str = "Present") -> RequestedSelection:
    """An entry that is granted."""
    return RequestedSelection(key=key, state=state, granted=True, variant=0, priority=0, in_use=False, claim=False)


def test_a_download_that_ends_while_its_stop_waits_for_labels_ends_nothing_else() -> None:
    machine = EntryMachine()
    rig = machine.rig
    try:
        machine.begin([requested(KEYS[0])])
        rig.rest()
        machine.entry_changes(requested(KEYS[2]))
        while not (rig.activity.running and rig.threads.waiting):
            machine.all_goes_well_for_a_while(1, threads_first=False)
        machine.wanted = {KEYS[0]: requested(KEYS[0], "Draining")}
        machine.entry_changes(requested(KEYS[0], "Draining"))  # a label is dropped first, then the download is stopped
        rig.answer(0)
        while rig.threads.waiting:
            rig.work(0)
        assert not rig.activity.running
        assert rig.answers.waiting
        rig.rest()
        machine.the_agent_lives()
        machine.only_the_bugs_of_the_test_are_met()
    finally:
        machine.teardown()
