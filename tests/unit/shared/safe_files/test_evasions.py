"""Ways to hide a pickle that its readers would still find; nothing here is ever unpickled."""

import bz2
import gzip
import io
import json
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

from shared.safe_files.file_kinds import why_unsafe
from tests.unit.shared.safe_files.cpython import is_dangerous
from tests.unit.shared.safe_files.refusal import NAMES, accepting_names, why


def xz_with_the_largest_window(data: bytes) -> bytes:
    """Return the output of preset 9 for short data, without the 700 MB of memory that it needs."""
    packed = bytearray(lzma.compress(data, preset=0))
    if packed[12]:  # the header of a block; empty data has none
        end = 12 + 4 * packed[12]
        packed[16] = 28  # 64 MiB
        packed[end : end + 4] = struct.pack("<I", zlib.crc32(packed[12:end]))
    return bytes(packed)


PICKLE = pickle.dumps({"weight": [1.0, 2.0]}, 2)
CALL = b"cos\nsystem\n(S'id'\ntR."
NOISE = random.Random(7).randbytes(3 * 2**20)
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "zlib, quickly": lambda data: zlib.compress(data, 1),
    "zlib, in printable letters at its start": lambda data: zlib.compress(data, 2),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "xz with the largest window": xz_with_the_largest_window,
    "lzma": lambda data: lzma.compress(data, format=lzma.FORMAT_ALONE),
    "lzma with other settings": lambda data: lzma.compress(
        data, format=lzma.FORMAT_ALONE, filters=[{"id": lzma.FILTER_LZMA1, "lc": 0, "dict_size": 2**12}]
    ),
}


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


def zf(data: bytes, blank: bytes = b"") -> bytes:
    return b"ZF" + hex(len(data)).encode().ljust(19) + blank + zlib.compress(data)


def safetensors(data: bytes, header_bytes: int = 0, **metadata: str) -> bytes:
    """Return a file whose only tensor has these bytes, with a header of this length."""
    tensor = {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}
    text = json.dumps({"__metadata__": metadata, "w": tensor}).encode().ljust(header_bytes)
    return struct.pack("<Q", len(text)) + text + data


def test_the_hand_made_xz_header_equals_that_of_preset_9() -> None:
    ours, theirs = xz_with_the_largest_window(PICKLE), lzma.compress(PICKLE, preset=9)
    assert ours[:24] == theirs[:24]
    assert lzma.decompress(ours) == PICKLE


@pytest.mark.parametrize("kind", COMPRESSIONS)
@pytest.mark.parametrize("form", ["whole", "behind an empty member", "in pieces", "broken", "empty"])
def test_nothing_compressed_is_accepted(kind: str, form: str) -> None:
    compress = COMPRESSIONS[kind]
    data = {
        "whole": compress(PICKLE),
        "behind an empty member": compress(b"") + compress(PICKLE),
        "in pieces": compress(b"") * 50 + compress(PICKLE[:1]) + compress(PICKLE[1:]),
        "broken": compress(CALL + NOISE[:100_000])[:-9000] + bytes(9000),
        "empty": compress(b""),
    }[form]
    assert accepting_names(data) == []


def test_a_pickle_behind_much_empty_compressed_data_is_refused() -> None:
    assert accepting_names(gzip.compress(b"") + bytes(2**21) + gzip.compress(PICKLE)) == []
    assert accepting_names(gzip.compress(b"N0") + gzip.compress(b"") * 60_000 + gzip.compress(PICKLE)) == []
    named = b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * 2**21 + b"\0"
    assert accepting_names(named + gzip.compress(PICKLE)[10:]) == []


def test_a_pickle_that_begins_like_another_file_type_is_refused() -> None:
    window = struct.pack("<I", 2**12)  # BINBYTES of 4096, and settings of LZMA
    assert accepting_names(b"B" + window + bytes(2**12) + b"0cos\nsystem\n)R.") == []
    data = header("c" + "os\nsystem\n(S'true'\ntR.", 0)
    assert accepting_names(data + bytes(1024)) == []


@pytest.mark.parametrize("blank", [b"", b" "])
def test_the_oldest_joblib_format_is_refused(blank: bytes) -> None:
    assert accepting_names(zf(PICKLE, blank)) == []
    assert why(b"ZFS is a file system, and this a text about it.\n", "README") == ""


@pytest.mark.parametrize("frame", [b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"\x02\x21\x4c\x18", b"\x50\x2a\x4d\x18"])
def test_an_unsupported_compression_is_recognised_as_compressed(frame: bytes) -> None:
    assert accepting_names(frame + bytes(100)) == []
    assert why(frame + bytes(100), "m.onnx_data") == "is compressed"


@pytest.mark.parametrize(
    "prefix", [b"x", b"#!/bin/sh\nexit\n", b"MZ" + bytes(1000), b"\x89HDF\r\n\x1a\n", b"\x89PNG\r\n\x1a\n",
               b"%PDF-1.7\n", b"GGUF\x03\0\0\0", b"\x08\x07\x12\x01x", b"lmgg", b"\n\x0e\n\x05<unk>", b"{}\n" * 100_000]
)  # fmt: skip
@pytest.mark.parametrize("comment", [b"", b"c" * 65_535])
@pytest.mark.parametrize("members", [{"a/data.pkl": PICKLE}, {"a/0": PICKLE}, {"a/0": b"hello"}])
def test_no_archive_is_accepted_behind_any_prefix(prefix: bytes, comment: bytes, members: dict[str, bytes]) -> None:
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        assert accepting_names(prefix + zipped(members, compression, comment)) == []
    assert accepting_names(zipped(members, comment=comment)) == []


@pytest.mark.parametrize("behind", [65_536, 65_537, 69_584, 100_000])
def test_an_archive_followed_by_more_bytes_than_a_zip_comment_can_hold_is_refused(behind: int) -> None:
    """CPython searches one byte further than a zip needs, and torch's reader four thousand."""
    archive = zipped({"a.npy": b"\x93NUMPY", "b/data.pkl": PICKLE})
    assert accepting_names(archive + bytes(behind)) == []
    assert accepting_names(b"x" + archive + bytes(behind)) == []


@pytest.mark.parametrize("mark", [b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"])
def test_a_file_that_starts_with_a_zip_signature_is_an_archive(mark: bytes) -> None:
    assert why(mark + bytes(300_000), "m.onnx_data") == "is a zip archive"
    assert why(b"PK stands for Phil Katz.\n", "README") == ""


@pytest.mark.parametrize("block", [0, *(2**exponent for exponent in range(9, 23))])
def test_no_hdf5_is_accepted_behind_any_user_block(block: int) -> None:
    superblock = b"\x89HDF\r\n\x1a\n" + bytes(300)
    data = (b"a text\n" * (block // 7 + 1))[:block] + superblock + b"a text\n" * 30_000
    assert accepting_names(data) == []
    assert why(data, "a.onnx_data") == "is HDF5"
    assert why(b"0" + data[1:], "a.onnx_data") == ("is HDF5" if block else "")


def test_an_hdf5_signature_amid_tensor_data_is_accepted() -> None:
    assert why(b"-" * 1536 + b"\x89HDF\r\n\x1a\n" + bytes(5000), "a.onnx_data") == ""


@pytest.mark.parametrize("flags", range(0, 256, 5))
def test_gzip_is_recognised_whatever_its_flags(flags: int) -> None:
    """Readers differ in the flags that they refuse, and few verify the checksum of a header."""
    assert why(b"\x1f\x8b\x08" + bytes((flags,)) + gzip.compress(PICKLE)[4:], "m.onnx_data") == "is compressed"


def test_a_zip_whose_offsets_count_from_the_start_of_the_file_is_recognised() -> None:
    front, archive = b"%PDF-1.7\n", bytearray(zipped({"a/data.pkl": PICKLE}))
    listed = archive.index(b"PK\x01\x02")
    archive[-6:-2] = struct.pack("<I", listed + len(front))
    assert why(front + bytes(archive) + b"trailing", "a.pdf") == "is a zip archive"
    archive[-10:-6] = struct.pack("<I", 7)  # a wrong length of the list
    assert why(front + bytes(archive), "a.pdf") == "is a zip archive"


def test_a_zip64_archive_behind_a_prefix_is_recognised() -> None:
    archive = zipped({"a.pkl": PICKLE})
    listed = archive.index(b"PK\x01\x02")
    size, at = len(archive) - 22 - listed, len(archive) - 22
    record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, size, listed)
    long = archive[:-22] + record + struct.pack("<4sIQI", b"PK\x06\x07", 0, at, 1) + archive[-22:]
    masked = long[:-10] + b"\xff" * 8 + long[-2:]
    for data in (b"%PDF-" + long, b"%PDF-" + masked):
        assert why(data, "a.pdf") == "is a zip archive"


def test_an_array_followed_by_an_archive_is_refused() -> None:
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
    array = b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text + bytes(8)
    assert why(array, "a.npy") == ""
    assert accepting_names(array + zipped({"a/data.pkl": PICKLE})) == []


def test_safetensors_whose_tensor_data_is_an_archive_are_refused() -> None:
    assert why(safetensors(b"weights"), "m.safetensors") == ""
    assert why(safetensors(zipped({"a/data.pkl": PICKLE})), "m.safetensors") == "is a zip archive"


def test_offsets_beyond_any_file_size_are_refused_without_a_disk_error(tmp_path: Path) -> None:
    archive, far = zipped({"a": b"hello"}), 2**62
    listed = archive.index(b"PK\x01\x02")
    record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, len(archive) - 22 - listed, far)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, len(archive) - 22, 1)
    beyond = archive[:-6] + struct.pack("<I", len(archive) + 2**20) + archive[-2:]
    for data in (archive[:-22] + record + locator + archive[-22:], beyond, struct.pack("<Q", far) + bytes(100)):
        path = tmp_path / "model.safetensors"
        path.write_bytes(data)
        with path.open("rb") as file:  # such a seek fails on a disk, not in memory
            assert why_unsafe(path.name, file, len(data))


def test_a_zip_end_signature_alone_is_not_an_archive() -> None:
    for place in range(0, 3000, 7):
        data = bytearray(NOISE[:3000])
        data[place : place + 4] = b"PK\x05\x06"
        assert why(safetensors(bytes(data)), "m.safetensors") == ""


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE,
                                  tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_SPARSE])  # fmt: skip
def test_no_tar_is_accepted(kind: bytes) -> None:
    assert accepting_names(blocks(header("d", 1024, kind), header("w", len(PICKLE)), PICKLE)) == []


def test_a_tar_that_begins_like_another_file_type_is_recognised() -> None:
    data = bytearray(header("w", len(PICKLE)))
    fronts = {"a.jpg": b"\xff\xd8\xff", "a.pdf": b"%PDF-", "m.onnx": b"\x08\x07\x12", "m.bin": b"lmgg"}
    for name, front in fronts.items():
        data[: len(front)] = front
        data[148:156] = b" " * 8
        data[148:156] = b"%06o\0 " % sum(data)
        assert why(blocks(bytes(data), PICKLE), name) == "is a tar archive"


@pytest.mark.parametrize("step", [b"V", b"U~", b"N" * 50 + b"V", b"x"])
def test_a_pickle_that_skips_the_safetensors_header_is_found(step: bytes) -> None:
    """The length of the header begins with BINUNICODE, its text goes on from there, and the tensor is the rest."""
    length, data = 0x4058, b"\n" + CALL
    tensor = {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}
    landing = 5 + (length >> 8) - 8
    text = b'{"__metadata__":{"a":"'.ljust(landing, b"-") + step.ljust(128, b"-") * 126
    text += b'"},"w":' + json.dumps(tensor).encode() + b"}"
    whole = struct.pack("<Q", length) + text.ljust(length) + data
    assert len(text) <= length
    assert why(whole, "m.safetensors") == ("is a pickle" if is_dangerous(whole) else "")
    assert is_dangerous(whole) == step.endswith(b"V")


@pytest.mark.parametrize("header_bytes", [0x158, 0x258, 0x458, 0x1358, 0x10158, 0x280, 0x55, 0x563, 0x978, 0x9C78])
def test_a_safetensors_length_that_begins_like_a_pickle_is_accepted(header_bytes: int) -> None:
    assert why(safetensors(b"0" * 300 + CALL, header_bytes), "m.safetensors") == ""


def test_gguf_whose_number_of_tensors_is_a_pickle_is_refused() -> None:
    """To an unpickler, `GGUF` begins a BINFLOAT of eight bytes; the author chooses the rest."""
    (count,) = struct.unpack("<Q", b"\x03V" + bytes(6))
    data = b"GGUF" + struct.pack("<IQQ", 3, count, 24) + b"\n" + CALL
    assert is_dangerous(data)
    assert why(data, "m.gguf") == "is a pickle"
    assert why(b"GGUF" + struct.pack("<IQQ", 3, 291, 24) + b"\n" + CALL, "m.gguf") == ""


def test_a_picture_whose_height_is_a_pickle_is_refused() -> None:
    assert why(b"GIF89a" + b"\x10\x00\x10c" + b"os\nsystem\n)R.", "a.gif") == "is a pickle"
    assert why(b"GIF89a" + b"\x10\x00\x10\x00" + b"os\nsystem\n)R.", "a.gif") == ""


def test_memory_is_not_allocated_for_the_sizes_that_a_file_declares() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    data = bytearray(lzma.compress(PICKLE * 1000, format=lzma.FORMAT_ALONE))
    for window in (2**30, 2**31):
        data[1:5] = struct.pack("<I", window)
        data[0] = 0x5A
        assert accepting_names(bytes(data)) == []
    for far in (b"B" + struct.pack("<I", 2**31), b"\x8e" + struct.pack("<Q", 2**40), b"\x96" + b"\x7f" * 8):
        assert why(b"N" + far + CALL, "m.onnx_data") == ""  # CPython cannot read these either
    assert why(b"Nr" + b"\xff" * 4 + CALL, "m.onnx_data") == "is a pickle"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


@pytest.mark.parametrize("unit", [b"N0", b"(1", b"N2\x860", b"N\x940", b"]", b"K\x010", b"I1\n0", b"N."])
def test_a_file_that_takes_too_long_to_examine_is_treated_as_a_pickle(unit: bytes) -> None:
    assert why(unit * 400_000 + CALL, "notes.txt") == why(unit * 400_000 + CALL, "m.onnx_data") == "is a pickle"


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
    assert accepting_names(_wrap(pickle.dumps({"a": [1, "x" * 500]}, protocol), kinds)) == []


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(sorted(WRAPS)),
    name=st.sampled_from(NAMES),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=8),
    end=st.integers(0, 10_000),
)
def test_corrupted_input_raises_no_unexpected_error(
    kind: str, name: str, changes: list[tuple[int, int]], end: int
) -> None:
    data = bytearray(WRAPS[kind](PICKLE + NOISE[:300]))
    for place, byte in changes:
        data[place % len(data)] = byte
    why(bytes(data[: len(data) - end % len(data)]), name)
