"""The arithmetic of room, driven through any order of reservations, arrivals, discards, removals and new limits."""

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
    """A disk of 1000 bytes with downloads that write only what they were promised, and a limit that may change."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.limit, self.floor, self.others = 800, 50, 0
        self.stored = 0  # of complete models
        self.open: dict[str, int] = {}  # what each is still promised, by our own count
        self.came: dict[str, int] = {}  # what is on the disk of it
        self.lowered = False

    @property
    def used(self) -> int:
        """What the disk shows of ours."""
        return self.stored + sum(self.came.values())

    @property
    def capacity(self) -> StoreCapacity:
        """What a reservation is decided from."""
        return StoreCapacity(self.used, self.limit, DISK - self.used - self.others, self.floor)

    @rule(key=keys, size=sizes)
    def ask(self, key: str, size: int) -> None:
        """Ask for the rest of a model; it is granted in full or not at all."""
        need = max(0, size - self.came.get(key, 0))
        if not why_refused(need, self.ledger.reserved(excluding=key), self.capacity):
            self.ledger.reserve(key, need)
            self.open[key] = need
            self.came.setdefault(key, 0)

    @rule(key=keys, share=shares)
    def write(self, key: str, share: float) -> None:
        """Some of what was promised arrives."""
        size = int(self.open.get(key, 0) * share)
        self.ledger.arrived(key, size)
        if key in self.open:
            self.open[key] -= size
            self.came[key] += size

    @rule(key=keys)
    def discard(self, key: str) -> None:
        """All that came of a model was wrong: it comes again under the same promise."""
        if key in self.open:
            size, self.came[key] = self.came[key], 0
            self.ledger.arrived(key, -size)
            self.open[key] += size

    @rule(key=keys)
    def end(self, key: str) -> None:
        """A download ends, complete or not; its bytes stay."""
        self.ledger.release(key)
        self.open.pop(key, None)

    @rule(key=keys)
    def commit_and_remove(self, key: str) -> None:
        """A model goes from the disk."""
        self.end(key)
        self.came.pop(key, None)

    @rule(limit=st.integers(1, 1200))
    def change_limit(self, limit: int) -> None:
        """The administrator changes his mind; what is promised already stays promised."""
        self.lowered = self.lowered or limit < self.used + sum(self.open.values())
        self.limit = limit

    @precondition(lambda self: self.lowered and self.used + sum(self.open.values()) <= self.limit)
    @rule()
    def level_again(self) -> None:
        """Enough was removed since the limit was lowered."""
        self.lowered = False

    @invariant()
    def promises_are_those_that_were_made(self) -> None:
        """No promise is lost, none is left over."""
        for key in KEYS:
            others = sum(size for name, size in self.open.items() if name != key)
            assert self.ledger.reserved(excluding=key) == others
        assert self.ledger.reserved() == sum(self.open.values())

    @invariant()
    def what_is_promised_fits(self) -> None:
        """Neither limit nor floor is crossed, whatever arrives of it."""
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
