"""Malformed and hostile packs."""

import itertools
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.sources.gitlfs.pack import BadPack, GitObject, PackTooLarge, read_pack

COMMIT, BLOB, OFFSET_DELTA, ID_DELTA = 1, 3, 6, 7
MANY = 2**30


def entry(kind: int, content: bytes, base: bytes = b"", size: int | None = None) -> bytes:
    size = len(content) if size is None else size
    head, size = bytes([kind << 4 | size & 15]), size >> 4
    while size:
        head = head[:-1] + bytes([head[-1] | 0x80, size & 0x7F])
        size >>= 7
    return head + base + zlib.compress(content)


def pack(*entries: bytes, count: int | None = None) -> bytes:
    number = len(entries) if count is None else count
    return b"PACK" + (2).to_bytes(4, "big") + number.to_bytes(4, "big") + b"".join(entries) + bytes(20)


def varint(value: int) -> bytes:
    return bytes([value & 0x7F | (0x80 if value > 0x7F else 0)]) + (varint(value >> 7) if value > 0x7F else b"")


def test_a_delta_is_applied_wherever_its_base_is_in_the_pack() -> None:
    base, made = GitObject(b"blob", b"hello world"), GitObject(b"blob", b"world, hello")
    delta = varint(11) + varint(12) + bytes([0x91, 6, 5]) + b"\x02, " + bytes([0x90, 5])
    by_id = entry(ID_DELTA, delta, bytes.fromhex(base.id))
    for entries in ((entry(BLOB, base.content), by_id), (by_id, entry(BLOB, base.content))):
        assert read_pack(pack(*entries), 9, MANY)[made.id] == made
    first = entry(BLOB, base.content)
    assert made.id in read_pack(pack(first, entry(OFFSET_DELTA, delta, bytes([len(first)]))), 9, MANY)


def test_deltas_in_reverse_order_are_resolved_in_linear_time() -> None:
    contents = [b"%d" % number for number in range(20_000)]  # takes half a minute if each round resolves one
    entries = [
        entry(ID_DELTA, varint(len(a)) + varint(len(b)) + bytes([len(b)]) + b, bytes.fromhex(GitObject(b"blob", a).id))
        for a, b in itertools.pairwise(contents)
    ]
    found = read_pack(pack(*reversed(entries), entry(BLOB, contents[0])), 30_000, MANY)
    assert GitObject(b"blob", contents[-1]).id in found


def test_the_steps_of_a_delta_are_bounded() -> None:
    base = GitObject(b"blob", b"x" * 10)
    delta = varint(10) + varint(100_000) + bytes([0x90, 1]) * 100_000  # copies a single byte at a time
    data = pack(entry(BLOB, base.content), entry(ID_DELTA, delta, bytes.fromhex(base.id)))
    with pytest.raises(PackTooLarge):
        read_pack(data, 9, 2**20)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>",
        pack(count=1),
        pack(entry(0, b"x")),
        pack(entry(BLOB, b"x" * 100, size=10)),
        pack(entry(BLOB, b"x", size=10)),
        pack(entry(OFFSET_DELTA, b"\x01\x01\x01x", bytes([99]))),
        pack(entry(OFFSET_DELTA, b"\x01\x01\x01x", bytes([0]))),
        pack(entry(ID_DELTA, b"\x01\x01\x01x", bytes(20))),
        pack(entry(BLOB, b"x"), entry(ID_DELTA, b"\x01\x05\x01x", bytes.fromhex(GitObject(b"blob", b"x").id))),
        pack(entry(BLOB, b"x"), entry(ID_DELTA, b"\x01\x01\x00", bytes.fromhex(GitObject(b"blob", b"x").id))),
        pack(entry(BLOB, b"x"), entry(ID_DELTA, b"\x01\x01\x91", bytes.fromhex(GitObject(b"blob", b"x").id))),
        pack(entry(BLOB, b"x"), entry(ID_DELTA, b"\x01\x00" + b"\x80" * 9, bytes.fromhex(GitObject(b"blob", b"x").id))),
        pack(entry(BLOB, b"x"), entry(ID_DELTA, b"\x80" * 12, bytes.fromhex(GitObject(b"blob", b"x").id))),
    ],
)
def test_a_malformed_pack_is_refused(data: bytes) -> None:
    with pytest.raises(BadPack):
        read_pack(data, 9, MANY)


def test_a_bomb_is_refused_before_it_is_inflated() -> None:
    with pytest.raises(PackTooLarge):
        read_pack(pack(entry(BLOB, bytes(1000), size=2**40)), 9, 2**20)
    with pytest.raises(PackTooLarge):
        read_pack(pack(count=10), 9, MANY)
    base = GitObject(b"blob", bytes(1000))
    delta = varint(1000) + varint(2**30) + bytes([0xB0, 0xE8, 0x03]) * 2**10  # copies the base again and again
    with pytest.raises(PackTooLarge):
        read_pack(pack(entry(BLOB, base.content), entry(ID_DELTA, delta, bytes.fromhex(base.id))), 9, 2**20)


@given(st.binary(max_size=300), st.integers(0, 3))
def test_arbitrary_bytes_raise_only_pack_errors(noise: bytes, count: int) -> None:
    for data in (noise, pack(noise, count=count), pack(entry(BLOB, b"x"), entry(ID_DELTA, noise, bytes(20)))):
        try:
            read_pack(data, 9, 2**20)
        except (BadPack, PackTooLarge):
            continue
