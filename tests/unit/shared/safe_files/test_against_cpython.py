"""What CPython's own unpickler would run is refused under every name; nothing is imported or called here."""

import io
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.safe_files.pickle_tracer import may_load_as_pickle
from tests.unit.shared.safe_files.cpython import is_dangerous
from tests.unit.shared.safe_files.refusal import accepting_names


def is_found(data: bytes) -> bool:
    return accepting_names(data) == [] and may_load_as_pickle(io.BytesIO(data), len(data))


CALL = b"cos\nsystem\n(S'id'\ntR."
BYPASSES = {
    "INT with a NUL": b"I0\0x\n0",
    "INT with a NUL, popped late": b"I0\0 anything at all\n",
    "INT with blanks": b"I \t1\n0",
    "INT in hex": b"I-0x1F\n0",
    "INT that is true": b"I01\n0",
    "LONG with a NUL": b"L0\0x\n0",
    "LONG with underscores": b"L1_0L\n0",
    "LONG with a blank in front of its letter": b"L3 L\n0",
    "FLOAT with a NUL": b"F0\0x\n0",
    "FLOAT that is none": b"Fnan\n0",
    "PUT with a NUL": b"Np0\0x\n0",
    "GET with a NUL": b"Np0\n0g0\0x\n0",
    "PUT with blanks": b"Np 7 \n0",
    "BUILD of nothing": b"NNb0",
    "BUILD of a list by nothing": b"]Nb0",
    "BUILD of slots that are none": b"]N}\x86b0",
    "a mark that is popped": b"(0",
    "a list of marks": b"((1(10",
    "a text in UTF-16": b"V\\u0041\xff\n0",
    "a text of quotes": b"S'\\x41'\n0",
    "a frame": b"\x95\x02\0\0\0\0\0\0\0",
    "an empty frame": b"\x95\0\0\0\0\0\0\0\0",
    "a number of many bytes": b"\x8a\x0400000",
    "another pickle in front": b"N.",
    "a call with a tuple that a name brings": b"cbuiltins\nprint\ncsys\nversion_info\nR0",
}


@pytest.mark.parametrize("protocol", [b"", b"\x80\x00", b"\x80\x02", b"\x80\x04"])
@pytest.mark.parametrize("name", BYPASSES)
def test_no_instruction_in_front_hides_a_call(name: str, protocol: bytes) -> None:
    data = protocol + BYPASSES[name] + CALL
    assert is_found(data), name


@pytest.mark.parametrize(
    "data",
    [
        b"cos\nsystem\n.and whatever follows",
        b"c__main__\nnot-a-name\n(tR.",
        b"c3d\nx-y\n)R.",
        b"c" + b"m" * 70_000 + b"\n" + b"n" * 70_000 + b"\n)R.",
        b"(ios\nsystem\n.",
        b"(cos\nsystem\no.",
        b"cos\nsystem\n)\x81.",
        b"cos\nsystem\n)}\x92.",
        b"S'os'\nS'system'\n\x93)R.",
        b"cos\nname\n\x8c\x06system\x93(S'id'\ntR.",
        b"cos\nname\nS'system'\n\x93csys\nversion_info\nR.",
        b"Pid\n)R.",
        b"NQ)R.",
        b"cos\nsystem\nNb.",
        b"cos\nsystem\np0\n0N.",
    ],
)
def test_every_way_to_call_is_found(data: bytes) -> None:
    assert is_found(data)


@pytest.mark.parametrize(
    "text",
    [
        b"config of a model\nas a text\n\nwith lines\n",
        b"checkpoints/\nlogs/\n.cache\n",
        b"In this repository\n(see below) there are files.\n",
        b"N.B. nothing runs here",
        b"I am\n0 files\n",
        b"Long\nLists\n.\n",
        b'{"a": 1}',
        b"\x80\x02" + bytes(6) + b'{"__metadata__": {}}',
        b"",
    ],
)
def test_plain_text_is_not_mistaken_for_a_pickle(text: bytes) -> None:
    assert not may_load_as_pickle(io.BytesIO(text), len(text))


def test_text_that_is_a_valid_pickle_with_a_global_is_found() -> None:
    assert is_found(b"can\nbe\n.\nand\n")


# Programs are drawn from a seed: drawing them with hypothesis would take ten times as long as the tests.
NUMBERS = (
    b"0",
    b"1",
    b"7",
    b"00",
    b"01",
    b"-1",
    b" 2",
    b"3 ",
    b"",
    b"0x1f",
    b"1_0",
    b"1e3",
    b"nan",
    b"9" * 30,
    b"\x0b4",
)
TAILS = (b"", b"", b"\0", b"\0x", b" ", b"\0\0L", b"L", b"x")
WORDS = (b"os", b"a.b", b"system", b"not-one", b"", b"a b", "é".encode(), b"\xff")
QUOTES = (b"'os'", b'"a"', b"'", b"a", b"'\\x41' ", b"'a\"", b"''")
SINGLE = tuple(
    bytes([code]) for code in b"().0123NQRabdelostu}]\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94\x97\x98"
)
WHOLE = (
    (b"\x80\x02", b"\x80\x04", b"\x80\x05", b"M\0\0", b"G" + bytes(8)),
    (b"cos\nsystem\n", b"csys\nversion_info\n", b"cos\nname\n", b"(tR", b")R", b")\x81"),
)
ENDS = (b"", b".", b".rest", b")R.", CALL, b"0" + CALL)
Step = Callable[[random.Random], bytes]


def line(code: bytes, *parts: Sequence[bytes]) -> Step:
    return lambda chance: code + b"".join(map(chance.choice, parts)) + b"\n"


def followed(code: bytes, after: bytes = b"") -> Step:
    """Return an instruction with any byte after it."""
    return lambda chance: code + chance.randbytes(1) + after


def counted(code: bytes, width: int) -> Step:
    """Return an instruction whose text has a length, which may be wrong."""

    def step(chance: random.Random) -> bytes:
        word = chance.choice(WORDS)
        return code + (len(word) + chance.choice((0, 0, 0, 1, 200))).to_bytes(width, "little") + word

    return step


STEPS: tuple[Step, ...] = (
    lambda chance: chance.choice(SINGLE),
    *(line(code, NUMBERS, TAILS) for code in (b"I", b"L", b"F", b"p", b"g", b"I", b"F")),
    *(line(code, WORDS) for code in (b"V", b"P")),
    line(b"S", QUOTES),
    *(line(code, WORDS, (b"\n",), WORDS) for code in (b"c", b"i", b"c")),
    *(followed(code) for code in (b"K", b"h", b"q", b"\x80", b"\x82")),
    followed(b"\x83", b"\0"),
    followed(b"\x84", bytes(3)),
    *(counted(code, 1) for code in (b"U", b"C", b"\x8c", b"\x8a")),
    *(counted(code, 4) for code in (b"T", b"B", b"X", b"\x8b", b"r", b"j", b"J")),
    *(counted(code, 8) for code in (b"\x8d", b"\x8e", b"\x96", b"\x95")),
    *(lambda chance, some=some: chance.choice(some) for some in WHOLE),
)


def program(chance: random.Random, most: int) -> bytes:
    """Return up to this many instructions."""
    return b"".join(chance.choice(STEPS)(chance) for _ in range(chance.randint(0, most)))


def check(data: bytes) -> None:
    if is_dangerous(data):
        assert is_found(data), data


@pytest.mark.parametrize("start", [b"I0\0x\n0", b"NNb0"])
def test_short_prefixes_do_not_hide_a_call(start: bytes) -> None:
    check(start + CALL)


@given(st.integers(0, 2**32))
def test_a_pickle_that_cpython_runs_is_found(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        check(program(chance, 14) + chance.choice(ENDS))


@given(st.integers(0, 2**32))
def test_a_damaged_pickle_that_cpython_runs_is_found(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        data, noise, at = program(chance, 6) + CALL, chance.randbytes(chance.randint(0, 3)), chance.randint(0, 60)
        check(data[:at] + noise + data[at + len(noise) :])


@pytest.mark.parametrize("code", [b"\x82\x01", b"\x82\0", b"\x83\1\1", b"\x84\1\0\0\0", b"\x84\0\0\0\xff"])
def test_unregistered_extension_codes_are_not_taken_for_a_pickle(code: bytes) -> None:
    for data in (code + b")R.", code + b"0" + CALL, b"\x80\x02" + code + b"."):
        assert not is_dangerous(data)
        assert not may_load_as_pickle(io.BytesIO(data), len(data))


class Counted(io.BytesIO):
    """Counts the bytes that are read."""

    read_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        return self._count(super().read(size))

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._count(super().readline(size))

    def _count(self, found: bytes) -> bytes:
        self.read_bytes += len(found)
        return found


@pytest.mark.parametrize("line", [b"V" + b"x" * 2**20 + b"\n0", b"P" + b"x" * 2**22 + b"\n0", b"c" + b"m\n" * 2 + b"0"])
def test_a_pickle_with_endless_lines_is_read_only_up_to_a_limit(line: bytes) -> None:
    file = Counted(line * (48 * 2**20 // len(line) if len(line) > 9 else 60_000))
    assert may_load_as_pickle(file, len(file.getbuffer()))
    assert file.read_bytes < 17 * 2**20


def test_a_long_one_line_safetensors_header_is_not_mistaken_for_a_pickle() -> None:
    """The first byte of the length is 0x50, which is PERSID, and the header has no line break."""
    data = (0x654350).to_bytes(8, "little") + b" " * 0x654350
    assert not may_load_as_pickle(io.BytesIO(data + b"\n\0"), len(data) + 2)


def test_the_cpython_reference_detects_calls() -> None:
    assert is_dangerous(CALL)
    assert is_dangerous(b"I0\0x\n0" + CALL)
    assert is_dangerous(b"NNb0" + CALL)
    assert is_dangerous(b"cos\nsystem\n.rest")
    assert not is_dangerous(b"N.")
    assert not is_dangerous(b"Nr\xff\xff\xff\x7f" + CALL)  # a memo of 32 GiB
