import hashlib
import itertools
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.store.partials import held_spans, open_partial
from agent.transfer.assembly import PIECE_BYTES, Assembly, Claim
from agent.verify import Check
from rig.processes import wait_until
from shared.manifest import File
from shared.spans import Span, Spans

KEY = "0" * 64
SOON_S = 60


@contextmanager
def begun(size: int, folder: Path | None = None, *, digest: bool = True) -> Iterator[Assembly]:
    with (
        tempfile.TemporaryDirectory() as fresh,
        closing(open_partial(folder or Path(fresh), KEY, size, digest=digest)) as partial,
    ):
        yield Assembly(File("weights", size), partial, Check)


def claimed(claim: Claim | None) -> Claim:
    assert claim is not None
    return claim


def put(assembly: Assembly, claim: Claim, size: int) -> None:
    """Write the next bytes of a claim, as a source that has the file would send them."""
    size = min(size, claim.left.size_bytes)
    assembly.write(claim, memoryview(bytes((claim.position + n) % 251 for n in range(size))))


@given(
    size=st.integers(1, 400),
    moves=st.lists(st.tuples(st.sampled_from(["claim", "piece", "write", "leave"]), st.integers(0, 60)), max_size=60),
)
def test_the_file_is_put_together_whatever_the_order(size: int, moves: list[tuple[str, int]]) -> None:
    with begun(size) as assembly:
        claims: list[Claim] = []
        for move, number in moves:
            if move in ("claim", "piece"):
                if claim := assembly.claim(number + 1 if move == "piece" else None):
                    claims.append(claim)
            elif claims and move == "write":
                put(assembly, claims[number % len(claims)], number)
            elif claims:
                assembly.give_back(claims.pop(number % len(claims)))
            lefts = sorted(claim.left for claim in claims if claim.left.size_bytes)
            assert all(before.end <= after.start for before, after in itertools.pairwise(lefts))
        for claim in claims:
            assembly.give_back(claim)
        held = list(assembly.partial.held)
        told = list(held_spans(assembly.partial.path.parent, KEY, size, digest=True))
        assert list(Spans([*held, *told])) == held
        assert told == held or not assembly.missing_bytes  # of a whole file the last bytes need not be told
        while claim := assembly.claim():
            put(assembly, claim, size)
            assembly.give_back(claim)
        assert assembly.missing_bytes == 0
        assert assembly.partial.path.read_bytes() == bytes(n % 251 for n in range(size))


def test_what_was_noted_is_there_after_a_kill(tmp_path: Path) -> None:
    with begun(1000, tmp_path) as assembly:
        first, last = claimed(assembly.claim(100)), claimed(assembly.claim(900))
        put(assembly, first, 40)
        put(assembly, last, 500)
        for claim in (first, last):
            assembly.give_back(claim)
    with begun(1000, tmp_path) as assembly:
        assert list(assembly.partial.held) == [Span(0, 40), Span(100, 600)]
        assert claimed(assembly.claim()).left == Span(40, 100)


def test_a_kill_costs_a_connection_no_more_than_an_eighth_of_a_mebibyte(tmp_path: Path) -> None:
    size, step = 2**22, 2**14
    with begun(size, tmp_path) as assembly:
        claims = [claimed(assembly.claim(2**20)) for _ in range(4)]
        for _ in range(37):
            for claim in claims:
                put(assembly, claim, step)
        told = held_spans(tmp_path, KEY, size, digest=True).size_bytes  # what the next process finds after a kill now
        assert assembly.partial.held.size_bytes - told <= len(claims) * 2**17


def test_bytes_of_an_earlier_boot_count_only_where_a_digest_will_tell(tmp_path: Path) -> None:
    with begun(1000, tmp_path) as assembly:
        claim = claimed(assembly.claim())
        put(assembly, claim, 500)
        assembly.give_back(claim)
    told = tmp_path / f"{KEY}.map"
    told.write_text("another-boot\n" + told.read_text().partition("\n")[2])
    assert held_spans(tmp_path, KEY, 1000, digest=True).size_bytes == 500
    assert held_spans(tmp_path, KEY, 1000, digest=False).size_bytes == 0


def test_a_map_without_its_file_says_nothing_of_the_next_one(tmp_path: Path) -> None:
    told = tmp_path / f"{KEY}.map"
    told.write_text("boot\n0 1000\n")
    with begun(1000, tmp_path) as assembly:
        claim = claimed(assembly.claim())
        put(assembly, claim, 10)
        assembly.give_back(claim)
        assert list(held_spans(tmp_path, KEY, 1000, digest=True)) == [Span(0, 10)]


def test_a_line_that_a_crash_cut_short_is_left_out(tmp_path: Path) -> None:
    with begun(1000, tmp_path) as assembly:
        claim = claimed(assembly.claim(100))
        put(assembly, claim, 100)
        assembly.give_back(claim)
    with (tmp_path / f"{KEY}.map").open("ab") as told:
        told.write(b"1")
    with begun(1000, tmp_path) as assembly:
        claim = claimed(assembly.claim(50))
        put(assembly, claim, 50)
        assembly.give_back(claim)
    assert list(held_spans(tmp_path, KEY, 1000, digest=True)) == [Span(0, 150)]


def test_a_share_ends_the_claim_of_who_fetches_all_that_follows() -> None:
    with begun(10 * PIECE_BYTES) as assembly:
        first = claimed(assembly.claim())
        second = claimed(assembly.share())
        assert (first.left, second.left) == (Span(0, PIECE_BYTES), Span(PIECE_BYTES, 2 * PIECE_BYTES))
        assembly.divisible = False
        assert assembly.share() is None


def test_starting_over_drops_what_was_claimed_before() -> None:
    with begun(1000) as assembly:
        before, claim = assembly.hashing, claimed(assembly.claim())
        put(assembly, claim, 400)
        assert assembly.discard() == 400
        assert assembly.hashing.done == 0
        assert claim.left.size_bytes == 0
        assembly.write(claim, memoryview(b"late"))
        assembly.give_back(claim)
        assert assembly.missing_bytes == 1000
        assert assembly.unhashed(before, threading.Event()) is None
        again = claimed(assembly.claim())
        assert again.left == Span(0, 1000)


def test_starting_over_waits_for_what_is_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the old bytes could come over the new ones, which are hashed from memory."""
    with begun(1000) as assembly:
        claim, began, may_write = claimed(assembly.claim()), threading.Event(), threading.Event()
        write = assembly.partial.write

        def write_late(data: memoryview, offset: int, *, once: bool = False) -> None:
            began.set()
            assert may_write.wait(SOON_S)
            write(data, offset, once=once)

        monkeypatch.setattr(assembly.partial, "write", write_late)
        with ThreadPoolExecutor() as threads:
            late = threads.submit(put, assembly, claim, 400)
            assert began.wait(SOON_S)
            discarded = threads.submit(assembly.discard)
            wait_until(lambda: claim.left.size_bytes == 0, SOON_S, "the end of the claim")
            assert not discarded.done()
            assert assembly.claim() is None
            assert assembly.missing_bytes == 1000
            may_write.set()
            late.result(SOON_S)
            discarded.result(SOON_S)
        assert assembly.partial.path.stat().st_size == 0
        assert assembly.missing_bytes == 1000


def test_what_is_finished_is_not_started_over() -> None:
    """It may be a blob already, which would be emptied."""
    with begun(1000) as assembly:
        before = assembly.hashing
        assembly.discard()
        assert not assembly.finish(before)
        claim = claimed(assembly.claim())
        put(assembly, claim, 1000)
        assert assembly.finish(assembly.hashing)
        assert assembly.discard() == 0
        assert assembly.partial.path.stat().st_size == 1000


@given(
    size=st.integers(0, 300),
    moves=st.lists(st.tuples(st.sampled_from(["claim", "write", "follow", "again"]), st.integers(0, 60)), max_size=60),
)
def test_every_byte_is_hashed_once_in_order_whoever_does_it(size: int, moves: list[tuple[str, int]]) -> None:
    with begun(size) as assembly:
        claims: list[Claim] = []
        for move, number in moves:
            if move == "claim" and (claim := assembly.claim(number + 1)):
                claims.append(claim)
            elif move == "write" and claims:
                put(assembly, claims[number % len(claims)], number)
            elif move == "follow" and assembly.partial.held.front > assembly.hashing.done:
                catch_up(assembly)
            elif move == "again" and number == 0:
                assembly.discard()
        for claim in claims:
            assembly.give_back(claim)
        while claim := assembly.claim():
            put(assembly, claim, size)
            assembly.give_back(claim)
        while catch_up(assembly):
            pass
        assert assembly.hashing.whole
        assert assembly.hashing.check.sha256 == hashlib.sha256(bytes(n % 251 for n in range(size))).hexdigest()


def catch_up(assembly: Assembly) -> int:
    """Hash what is here and not hashed, as a follower does; return how many bytes these were."""
    hashing = assembly.hashing
    span = assembly.unhashed(hashing, threading.Event())
    assert span is not None
    if span.size_bytes:
        hashing.feed(memoryview(assembly.partial.path.read_bytes())[span.start : span.end])
        assembly.leave(hashing)
    return span.size_bytes


def test_a_receiver_hashes_its_own_bytes_unless_somebody_is_at_it() -> None:
    with begun(100) as assembly:
        claim = claimed(assembly.claim())
        put(assembly, claim, 40)
        assert assembly.hashing.done == 40
        assembly.hashing.busy = True
        put(assembly, claim, 20)
        assert assembly.hashing.done == 40
        assembly.leave(assembly.hashing)
        assert catch_up(assembly) == 20
        put(assembly, claim, 40)
        assert assembly.hashing.whole


def test_who_follows_waits_for_the_receiver_that_hashes() -> None:
    with begun(100) as assembly:
        put(assembly, claimed(assembly.claim()), 40)
        assembly.hashing.busy = True
        found: list[Span | None] = []
        follower = threading.Thread(target=lambda: found.append(assembly.unhashed(assembly.hashing, stop)))
        stop = threading.Event()
        follower.start()
        assert not found
        stop.set()
        follower.join()
        assert found == [None]
