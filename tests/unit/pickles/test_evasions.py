"""Ways to hide a pickle that usual readers find all the same; nothing here is ever unpickled."""

import bz2
import gzip
import io
import lzma
import pickle
import random
import resource
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.pickles.compressed import unpack
from shared.pickles.containers import why_pickle
from shared.pickles.opcodes import is_pickle
from shared.pickles.parts import Budget, UnreadableError
from shared.pickles.zips import zip_parts

PICKLE = pickle.dumps({"weight": [1.0, 2.0]}, 2)
NOISE = random.Random(7).randbytes(3 * 2**20)
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "xz of the largest window": lambda data: lzma.compress(data, preset=9),
    "lzma": lambda data: lzma.compress(data, format=lzma.FORMAT_ALONE),
    "lzma with other settings": lambda data: lzma.compress(
        data, format=lzma.FORMAT_ALONE, filters=[{"id": lzma.FILTER_LZMA1, "lc": 0, "dict_size": 2**12}]
    ),
}


def why(data: bytes) -> str:
    return why_pickle(io.BytesIO(data), len(data))


def zipped(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED, comment: bytes = b"") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = comment
    return out.getvalue()


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.USTAR_FORMAT)


def blocks(*parts: bytes) -> bytes:
    return b"".join(part.ljust(-(-len(part) // 512) * 512, b"\0") for part in parts) + bytes(1024)


def pax(*records: tuple[str, str]) -> bytes:
    out = b""
    for key, value in records:
        line = f" {key}={value}\n".encode()
        length = next(n for n in range(len(line), 999) if n == len(str(n)) + len(line))
        out += str(length).encode() + line
    return out


def zf(data: bytes, blank: bytes = b"") -> bytes:
    return b"ZF" + hex(len(data)).encode().ljust(19) + blank + zlib.compress(data)


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_behind_an_empty_member(kind: str) -> None:
    compress = COMPRESSIONS[kind]
    assert why(compress(b"") + compress(PICKLE)) == "is a pickle, compressed"
    assert why(compress(b"") * 50 + compress(PICKLE[:1]) + compress(PICKLE[1:])) == "is a pickle, compressed"
    assert why(compress(b"") + compress(b"hello\n")) == ""
    assert why(compress(b"")) == ""


def test_behind_more_empty_members_than_are_looked_at() -> None:
    words = "is compressed so that too little of it can be looked at"
    assert why(gzip.compress(b"") + bytes(2**21) + gzip.compress(PICKLE)) == words
    assert why(gzip.compress(b"N0") + gzip.compress(b"") * 60_000 + gzip.compress(PICKLE)) == words
    named = b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * 2**21 + b"\0"
    assert why(named + gzip.compress(PICKLE)[10:]) == words


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_what_came_before_something_broken_counts(kind: str) -> None:
    code = b"\x80\x02cos\nsystem\n(X\x04\0\0\0truetR."
    assert why(COMPRESSIONS[kind](code + NOISE[:1_000_000])[:-9000] + bytes(9000)) == "is a pickle, compressed"


def test_what_else_a_compressed_file_is() -> None:
    value = bz2.compress(b"hello")[5:].ljust(300)
    data = b"]\0\0" + value  # no LZMA at all
    assert why(data) == ""
    window = struct.pack("<I", 2**12)  # BINBYTES of 4096, and settings of LZMA
    binary = b"B" + window + bytes(2**12) + b"0cos\nsystem\n)R."
    assert why(binary) == "is a pickle"


@pytest.mark.parametrize("blank", [b"", b" "])
def test_the_first_form_of_joblib(blank: bytes) -> None:
    assert why(zf(PICKLE, blank)) == "is a pickle, compressed"
    assert why(zf(b"hello\n", blank)) == ""
    assert why(b"ZFS is a file system, and this a text about it.\n") == ""


@pytest.mark.parametrize("frame", [b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"\x50\x2a\x4d\x18"])
def test_what_cannot_be_decompressed_here_is_not_trusted(frame: bytes) -> None:
    assert why(frame + bytes(100)) == "is compressed by zstd or lz4, and cannot be looked through"


@pytest.mark.parametrize("times", [4, 5, 40])
def test_too_deep_is_not_trusted(times: int) -> None:
    data = PICKLE
    for _ in range(times):
        data = gzip.compress(data)
    assert why(data).startswith("is packed too deep to be looked through")
    assert "too deep" in why(zipped({"a": zipped({"b": zipped({"c": zipped({"d": b"hello"})})})}))


@pytest.mark.parametrize(
    "prefix", [b"x", b"#!/bin/sh\nexit\n", b"MZ" + bytes(1000), b"\x89HDF\r\n\x1a\n", gzip.compress(b"a")]
)
def test_archives_with_something_in_front(prefix: bytes) -> None:
    held = "holds the pickle 'a/data.pkl'"
    archive = zipped({"a/data.pkl": PICKLE})
    assert why(prefix + archive) == held
    assert why(prefix + zipped({"a/data.pkl": PICKLE}, comment=b"c" * 65_535)) == held
    assert why(prefix + zipped({"a/0": PICKLE})) == "holds 'a/0', which is a pickle"
    assert why(prefix + zipped({"a/0": b"hello"})) == ""


def test_an_array_in_front_of_an_archive() -> None:
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
    array = b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text + bytes(8)
    assert why(array + zipped({"a/data.pkl": PICKLE})) == "holds the pickle 'a/data.pkl'"


def test_an_archive_that_begins_as_an_empty_one() -> None:
    empty = zipped({})
    assert why(empty) == ""
    assert why(empty + zipped({"a.pkl": PICKLE})) == "holds the pickle 'a.pkl'"
    assert why(empty + b"hello") == ""


def test_two_lists_of_members_in_one_archive_are_not_trusted() -> None:
    first, second = zipped({"a/data.pkl": PICKLE}), zipped({"a": b"hello"})
    end = bytearray(second)
    end[-6:-2] = struct.pack("<I", first.index(b"PK\x01\x02"))  # other readers go to where the end says
    assert why(first + bytes(end)) == "is a zip archive that cannot be looked through"


def test_an_archive_whose_long_end_has_a_huge_list_is_not_read() -> None:
    archive = zipped({"a": b"hello"})
    listed, size = archive.index(b"PK\x01\x02"), len(archive) - 22 - archive.index(b"PK\x01\x02")
    head, directory, end = archive[:listed], archive[listed : listed + size], archive[-22:]

    def long(length: int) -> bytes:
        at = len(head) + len(directory)
        record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, length, listed)
        return head + directory + record + struct.pack("<4sIQI", b"PK\x06\x07", 0, at, 1) + end

    assert why(long(size)) == ""
    assert why(long(2**40)) == "is a zip archive that cannot be looked through"


def test_places_that_no_file_has_are_no_fault_of_the_disk(tmp_path: Path) -> None:
    archive = zipped({"a": b"hello"})
    listed, far = archive.index(b"PK\x01\x02"), 2**62
    record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, len(archive) - 22 - listed, far)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, len(archive) - 22, 1)
    beyond = archive[:-6] + struct.pack("<I", len(archive) + 2**20) + archive[-2:]
    for data in (archive[:-22] + record + locator + archive[-22:], beyond):
        path = tmp_path / "model.safetensors"
        path.write_bytes(data)
        with path.open("rb") as file:  # seeking beyond what a file system counts fails on a disk, not in memory
            assert why_pickle(file, len(data)) in ("", "is a zip archive that cannot be looked through")


def test_the_mark_of_an_end_alone_is_no_archive() -> None:
    for place in range(7, 3000, 7):
        data = bytearray(NOISE[:3000])
        data[place : place + 4] = b"PK\x05\x06"
        assert why(bytes(data)) == ""


@pytest.mark.parametrize("outer", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_of_torch_in_another_of_which_only_the_start_is_looked_at(outer: int) -> None:
    inner = zipped({"a/data.pkl": PICKLE, "a/data/0": NOISE})
    assert why(zipped({"model.pt": inner}, outer)) == "holds 'model.pt', which holds the pickle 'a/data.pkl'"
    packed = gzip.compress(blocks(header("model.ckpt", len(inner)), inner))
    assert why(packed) == "holds 'model.ckpt', which holds the pickle 'a/data.pkl', compressed"
    harmless = zipped({"a/x.json": b"{}", "a/data/0": NOISE}, zipfile.ZIP_DEFLATED)
    assert why(zipped({"model.zip": harmless}, outer)) == ""
    hidden = zipped({"a/x": PICKLE, "a/data/0": NOISE}, zipfile.ZIP_DEFLATED)
    assert why(zipped({"model.zip": hidden}, outer)) == "holds 'model.zip', which holds 'a/x', which is a pickle"


def test_a_tar_whose_header_tells_another_size_than_its_extended_one() -> None:
    text, hidden = b"hello".ljust(512), header("w", len(PICKLE)) + PICKLE
    records = pax(("size", "512"))
    extended = header("x", len(records), tarfile.XHDTYPE)
    data = blocks(extended, records, header("t", 512 + len(hidden)), text, hidden)
    assert why(data) == "holds 'w', which is a pickle"
    large = blocks(extended, records, header("t", 0), text, header("u", 5), b"hello")
    assert why(large) == ""
    spoof = pax(("comment", "x\n12 size=512\n"))
    assert "'w'" in why(blocks(header("x", len(spoof), tarfile.XHDTYPE), spoof, header("t", 0), hidden))


@pytest.mark.parametrize("kind", [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_tar_with_a_size_where_no_bytes_follow(kind: bytes) -> None:
    data = blocks(header("d", 1024, kind), header("w", len(PICKLE)), PICKLE)
    assert why(data) == "holds 'w', which is a pickle"


@pytest.mark.parametrize("data", [
    blocks(header("s", 512, tarfile.GNUTYPE_SPARSE), PICKLE),
    blocks(header("x", 26, tarfile.XHDTYPE), pax(("GNU.sparse.major", "1")), header("t", len(PICKLE)), PICKLE),
    blocks(header("x", 9, tarfile.XHDTYPE), b"9 size=x\n", header("t", len(PICKLE)), b"hello"),
    blocks(header("g", 10, tarfile.XGLTYPE), b"10 size=1\n", header("t", 5), b"hello"),
])  # fmt: skip
def test_a_tar_that_readers_understand_in_different_ways_is_not_trusted(data: bytes) -> None:
    assert "cannot be looked through" in why(data)


def test_a_tar_whose_first_name_is_a_letter_is_no_lzma() -> None:
    assert why(blocks(header("d", 2**21), NOISE[: 2**21])) == ""
    assert why(blocks(header("d", 5), b"hello", header("w", len(PICKLE)), PICKLE)) == "holds 'w', which is a pickle"
    assert why(bytes(2**21)) == ""


def test_a_tar_that_is_a_pickle_itself() -> None:
    data = bytearray(header("c" + "os\nsystem\n(S'true'\ntR.", 0))
    assert why(bytes(data) + bytes(1024)) == "is a pickle"


def test_what_costs_too_much_is_given_up() -> None:
    words = "is packed so that it takes too long to be looked through"
    archive = zipped({f"{n}": bytes(100_000) for n in range(100)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(UnreadableError, match=words):
        list(zip_parts(io.BytesIO(archive), len(archive), Budget(left=30_000)))
    with pytest.raises(UnreadableError, match=words):
        is_pickle(io.BytesIO(b"N0" * 10_000), 20_000, Budget(left=30_000))
    with pytest.raises(UnreadableError, match=words):
        unpack(io.BytesIO(gzip.compress(b"") * 1000), 20_000, b"\x1f\x8b", Budget(left=30_000), cut=False)


def test_a_window_that_an_archive_asks_for_is_not_taken() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    data = bytearray(lzma.compress(PICKLE * 1000, format=lzma.FORMAT_ALONE))
    data[1:5] = struct.pack("<I", 2**30)
    assert why(bytes(data)) == "is a pickle, compressed"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


WRAPS: dict[str, Callable[[bytes], bytes]] = {
    **COMPRESSIONS,
    "behind an empty member": lambda data: gzip.compress(b"") + gzip.compress(data),
    "ZF": zf,
    "zip": lambda data: zipped({"a/b": data}),
    "deflated": lambda data: zipped({"a/b": data}, zipfile.ZIP_DEFLATED),
    "zip with a prefix": lambda data: b"hello\n" + zipped({"a/b": data}),
    "tar": lambda data: blocks(header("a/b", len(data)), data),
}


def _wrap(data: bytes, kinds: Iterable[str]) -> bytes:
    for kind in kinds:
        data = WRAPS[kind](data)
    return data


@settings(max_examples=200, deadline=None)
@given(kinds=st.lists(st.sampled_from(sorted(WRAPS)), max_size=6), protocol=st.integers(0, 5))
def test_no_wrapping_hides_a_pickle(kinds: list[str], protocol: int) -> None:
    assert why(_wrap(pickle.dumps({"a": [1, "x" * 500]}, protocol), kinds))


@settings(max_examples=200, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(sorted(WRAPS)), max_size=3), text=st.sampled_from([b"{}", b"hello\n", NOISE[:999]])
)
def test_no_wrapping_makes_one(kinds: list[str], text: bytes) -> None:
    assert why(_wrap(text, kinds)) == ""


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(sorted(WRAPS)),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=8),
    end=st.integers(0, 10_000),
)
def test_nothing_broken_breaks_it(kind: str, changes: list[tuple[int, int]], end: int) -> None:
    data = bytearray(WRAPS[kind](PICKLE + NOISE[:300]))
    for place, byte in changes:
        data[place % len(data)] = byte
    why(bytes(data[: len(data) - end % len(data)]))
