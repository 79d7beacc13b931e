"""The arithmetic of reservations, under any order of reservations, writes, discards, removals and new limits."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent.store.reservations import Ledger, StoreCapacity, why_refused

DISK = 1000
KEYS = ("a", "b", "c", "d")
keys = st.sampled_from(KEYS)
sizes = st.integers(0, 600)
shares = st.floats(0, 1)


class Quota(RuleBasedStateMachine):
    """A disk of 1000 bytes with downloads that write only what they have reserved, and a limit that may change."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.limit, self.floor, self.others = 800, 50, 0
        self.stored = 0  # of complete models
        self.open: dict[str, int] = {}  # the rest of each reservation, as the test counts it
        self.came: dict[str, int] = {}  # the bytes on the disk
        self.lowered = False

    @property
    def used(self) -> int:
        """The bytes that the store uses on the disk."""
        return self.stored + sum(self.came.values())

    @property
    def capacity(self) -> StoreCapacity:
        """The values that decide about a reservation."""
        return StoreCapacity(self.used, self.limit, DISK - self.used - self.others, self.floor)

    @rule(key=keys, size=sizes)
    def ask(self, key: str, size: int) -> None:
        """Reserve the rest of a model, in full or not at all."""
        need = max(0, size - self.came.get(key, 0))
        if not why_refused(need, self.ledger.reserved(excluding=key), self.capacity):
            self.ledger.reserve(key, need)
            self.open[key] = need
            self.came.setdefault(key, 0)

    @rule(key=keys, share=shares)
    def write(self, key: str, share: float) -> None:
        """Receive some of the reserved bytes."""
        size = int(self.open.get(key, 0) * share)
        self.ledger.count_arrived(key, size)
        if key in self.open:
            self.open[key] -= size
            self.came[key] += size

    @rule(key=keys)
    def discard(self, key: str) -> None:
        """Discard all received bytes of a model, which are reserved again."""
        if key in self.open:
            size, self.came[key] = self.came[key], 0
            self.ledger.count_arrived(key, -size)
            self.open[key] += size

    @rule(key=keys)
    def end(self, key: str) -> None:
        """End a download, complete or not; its bytes stay."""
        self.ledger.release(key)
        self.open.pop(key, None)

    @rule(key=keys)
    def commit_and_remove(self, key: str) -> None:
        """Remove a model from the disk."""
        self.end(key)
        self.came.pop(key, None)

    @rule(limit=st.integers(1, 1200))
    def change_limit(self, limit: int) -> None:
        """Change the limit; existing reservations stay."""
        self.lowered = self.lowered or limit < self.used + sum(self.open.values())
        self.limit = limit

    @precondition(lambda self: self.lowered and self.used + sum(self.open.values()) <= self.limit)
    @rule()
    def level_again(self) -> None:
        """Note that enough was removed since the limit was lowered."""
        self.lowered = False

    @invariant()
    def reservations_are_those_that_were_made(self) -> None:
        """No reservation is lost, and none is left over."""
        for key in KEYS:
            others = sum(size for name, size in self.open.items() if name != key)
            assert self.ledger.reserved(excluding=key) == others
        assert self.ledger.reserved() == sum(self.open.values())

    @invariant()
    def reservations_fit(self) -> None:
        """Neither limit nor floor is crossed, even if all reserved bytes arrive."""
        total = self.used + self.ledger.reserved()
        assert self.lowered or total <= self.limit
        assert total + self.floor <= DISK

    @invariant()
    def an_exact_fit_is_let_in_and_a_byte_more_is_not(self) -> None:
        """The last byte counts."""
        left = min(self.limit, DISK - self.floor) - self.used - self.ledger.reserved()
        if left > 0:
            assert why_refused(left, self.ledger.reserved(), self.capacity) == ""
        assert why_refused(max(left, 0) + 1, self.ledger.reserved(), self.capacity)


TestQuota = Quota.TestCase
TestQuota.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
