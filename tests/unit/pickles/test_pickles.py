"""Pickles are found whatever they are called, and what is none is left alone; nothing here is ever unpickled."""

import bz2
import collections
import gzip
import io
import json
import lzma
import os
import pickle
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import PickleRefused, StoreFailure
from shared.pickles.containers import why_pickle
from shared.pickles.opcodes import is_pickle
from shared.pickles.parts import Budget
from shared.pickles.refuse import refuse_pickles

LOCAL = Path(__file__).parents[3]


class Attack:
    """Would call something when it is loaded."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("true",)


STATE = collections.OrderedDict(weight=[1.0, 2.0], bias=(None, {"a": b"x" * 100}))
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def why(data: bytes) -> str:
    return why_pickle(io.BytesIO(data), len(data))


def zipped(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def npy(descr: str, data: bytes = b"", major: int = 1) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (2,), }}\n".encode()
    length = struct.pack("<H" if major == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes((major, 0)) + length + header + data


def safetensors(header_bytes: int = 0) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}}).encode()
    padded = header.ljust(max(header_bytes, len(header)))
    return struct.pack("<Q", len(padded)) + padded + random.Random(1).randbytes(256)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("value", [STATE, Attack(), {"plain": [1, 2, "x"]}, [b"\x00" * 100_000], None, 3, "text", (1,)])
def test_a_pickle_is_one_in_every_protocol(protocol: int, value: object) -> None:
    assert why(pickle.dumps(value, protocol)) == "is a pickle"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_several_in_a_row_are_one_as_torch_wrote_them(protocol: int) -> None:
    parts = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, STATE, ["1", "2"]]
    rows = b"".join(pickle.dumps(part, protocol) for part in parts)
    assert why(rows) == "is a pickle"
    if protocol >= 2:
        assert why(rows + struct.pack("<q", 4) + os.urandom(16)) == "is a pickle"


@pytest.mark.parametrize(
    "code",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"cos\nsystem\n(S'true'\ntRbroken from here on",  # it has run by then
        b"(S'true'\nios\nsystem\n.",
        b"(cos\nsystem\nS'true'\no.",
        b"(I1\nI2\ntp0\n0cos\nsystem\np1\n0g1\n(S'true'\ntR",
        b"(lp0\nI0x10\na0cos\nsystem\n(S'true'\ntR.",
        b"V" + b"x" * 200_000 + b"\n0cos\nsystem\n(S'true'\ntR.",  # behind a long line
        b"B" + struct.pack("<i", 2**21) + bytes(2**21) + b"0cos\nsystem\n(S'true'\ntR.",  # behind a long value
        b"N0" * 50_000 + b"cos\nsystem\n)R.",
        b"\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",  # without a header
        b"\x80\x04cos\nsystem\nnot even called",  # an import runs code as well
        b"csys\nmodules\nS'os'\nNs.",  # a change of what a module has
        b"cos\nsystem\n}b.",
        b"S'os'\nS'system'\n\x93)R",
    ],
)
def test_code_is_found_before_the_end(code: bytes) -> None:
    assert why(code) == "is a pickle"


@pytest.mark.parametrize("name", ["archive/data.pkl", "model/constants.PKL"])
def test_archives_of_torch(name: str) -> None:
    members = {"archive/version": b"3\n", "archive/data/0": bytes(1000), name: pickle.dumps(STATE, 2)}
    assert why(zipped(members)) == f"holds the pickle {name!r}"


def test_a_member_counts_by_its_content_too() -> None:
    data = zipped({"a.txt": b"hello", "weights/0": pickle.dumps(STATE, 2)}, zipfile.ZIP_DEFLATED)
    assert why(data) == "holds 'weights/0', which is a pickle"
    assert (
        why(zipped({"inner.zip": zipped({"a/data.pkl": b""})}))
        == "holds 'inner.zip', which holds the pickle 'a/data.pkl'"
    )


def test_arrays_of_numpy() -> None:
    assert why(npy("'|O'", pickle.dumps(["x"], 3))) == "is an array of pickled objects"
    assert why(npy("[('a', '<f4'), ('b', '|O')]", major=2)) == "is an array of pickled objects"
    assert why(npy("'<f4'", bytes(8))) == ""
    assert why(zipped({"a.npy": npy("'<f4'", bytes(8)), "b.npy": npy("'O'")})) != ""
    assert why(zipped({"a.npy": npy("'<f4'", bytes(8))})) == ""


@pytest.mark.parametrize(
    "descr",
    [
        "'object'", "'object_'", "'O,i4'", "'i4, O'", "'2O'", "'(2,)O'", r"'\x4f'", r"'\174O'", "'|' 'O'", "'ob''ject'",
        "'ob' # not yet\n'ject'", "u'O'", '[(("t", "n"), "O8")]', f"{' ' * 2**20}'O'",
    ],
)  # fmt: skip
def test_objects_by_another_name_of_their_type(descr: str) -> None:
    assert "is an array" in why(npy(descr, major=2))


@pytest.mark.parametrize(
    "descr", ["'<f4'", "'<M8[ns]'", "[('H2O', '<f4'), ('Other', '|b1'), ('', '|V4'), ('object_id', '<i8')]"]
)
def test_numbers_in_fields_of_any_name(descr: str) -> None:
    assert why(npy(descr, bytes(8))) == ""


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress, bz2.compress, lzma.compress])
def test_behind_a_compression(compress: Callable[[bytes], bytes]) -> None:
    assert why(compress(pickle.dumps([STATE] * 1000, 4))) == "is a pickle, compressed"
    assert why(compress(pickle.dumps({n: os.urandom(1000) for n in range(3000)}, 4))) == "is a pickle, compressed"
    assert why(compress(b"hello world\n" * 10_000)) == ""
    assert why(compress(tarred({"x/config.json": b"{}", "w.bin": pickle.dumps(STATE, 2), "z": bytes(3_000_000)}))) != ""
    assert why(compress(tarred({"x/config.json": b"{}", "z": bytes(3_000_000)}))) == ""


def test_tar_as_torch_once_wrote_it() -> None:
    data = tarred({"sys_info": pickle.dumps({"x": 1}, 2), "pickle": pickle.dumps(STATE, 2), "tensors": bytes(600)})
    assert why(data) == "holds 'sys_info', which is a pickle"
    inner = tarred({"nemo/model_config.yaml": b"a: 1\n" * 500, "nemo/w.ckpt": zipped({"a/data.pkl": b"x"})})
    assert why(inner) == "holds 'nemo/w.ckpt', which holds the pickle 'a/data.pkl'"
    assert why(tarred({"a": b"hello" * 1000, "b/c.json": b"{}"})) == ""


def test_archives_that_cannot_be_looked_through_are_not_trusted() -> None:
    assert why(zipped({"a": b"x" * 1000})[:-30]) == "is a zip archive that cannot be looked through"
    assert why(tarred({"a": bytes(1024)})[:512] + os.urandom(2048)) == "is a tar archive that cannot be looked through"


def _sentencepiece() -> bytes:
    pieces = (f"▁piece{n}".encode() for n in range(3000))
    return b"".join(
        b"\n" + bytes((len(p) + 7,)) + b"\n" + bytes((len(p),)) + p + b"\x15\x00\x00\x00\x00" for p in pieces
    )


WORDS = ["cat", "dog", "if", "in", "Note", "README", "V", "S", "I", "N", "None", "(c)", ".", "]", "}", "t", "R", "b"]
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(100)
HARMLESS = {
    "safetensors": safetensors(),
    **{f"safetensors {n:#x}": safetensors(n) for n in (0x280, 0x380, 0x428, 0x55, 0x563, 0x580, 0x442, 0x58 + 0x200)},
    "gguf": b"GGUF" + struct.pack("<IQQ", 3, 291, 24) + b"\x14\0\0\0\0\0\0\0general.architecture" + os.urandom(4000),
    "gguf of many": b"GGUF" + struct.pack("<IQQ", 3, 0x2E28, 24) + os.urandom(4000),
    "sentencepiece": _sentencepiece(),
    "json": json.dumps({"a": [1, None]}).encode(),
    "png": PNG,
    "jpeg": b"\xff\xd8\xff\xe0\x00\x10JFIF" + os.urandom(500),
    "hdf5": b"\x89HDF\r\n\x1a\n" + bytes(500),
    "onnx": b"\x08\x07\x12\x07pytorch\x1a\x052.0.1" + os.urandom(500),
    "licence": b"Copyright (c) 2024 The Authors\n\nPermission is hereby granted,\n free of charge\n",
    "mit": b"MIT License\n\nCopyright (c) 2024\n",
    "llama": b"LLAMA 3.1 COMMUNITY LICENSE AGREEMENT\nLlama 3.1 Version\n",
    "gemma": b"Gemma Terms of Use\n",
    "bsd": b"(c) 2023 Someone\nAll rights reserved.\n",
    "readme": b"---\nlicense: mit\n---\n# Model\n",
    "first person": b"I am a model.\nI1 is a number.\n",
    "vocabulary": "\n".join(WORDS).encode(),
    "vocabulary of c": b"cat\ndog\nelephant\nfox\n",
    "vocabulary with a dot": b"can\nbe\n.\nand\nmore\n",
    "merges": "#version: 0.2\n\u0120 t\n\u0120 a\n".encode(),
    "tiktoken": b"IQ== 0\nIg== 1\nIw== 2\n",
    "numbers": b"1.0 2.0\n3.0\n",
    "zeros": bytes(10_000),
    "empty": b"",
    "one": b"N",
    "npy": npy("'<f2'", os.urandom(4)),
    "docx": zipped({"[Content_Types].xml": b"<x/>", "word/document.xml": b"<y/>" * 100}, zipfile.ZIP_DEFLATED),
    "keras": zipped(
        {"metadata.json": b"{}", "config.json": b"{}", "model.weights.h5": b"\x89HDF\r\n\x1a\n" + bytes(9)}
    ),
    "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
    "html": b"<!doctype html>\n<html>",
    "utf-16": "Version\nConfig\nText".encode("utf-16"),
    "arrow": b"ARROW1\x00\x00" + os.urandom(300),
    "elf": b"\x7fELF\x02\x01\x01" + bytes(300),
    "wasm": b"\x00asm\x01\x00\x00\x00",
    "flatbuffer": b"\x1c\x00\x00\x00TFL3" + os.urandom(300),
    "protobuf of field 32": b"\x80\x02\x01" + os.urandom(300),
}


@pytest.mark.parametrize("kind", HARMLESS)
def test_what_is_no_pickle_is_left_alone(kind: str) -> None:
    assert why(HARMLESS[kind]) == ""


def test_texts_and_pictures_of_this_project_are_none() -> None:
    found = [p for p in LOCAL.glob("docs/**/*") if p.is_file()] + list(LOCAL.glob("*/*.py")) + list(LOCAL.glob("*"))
    checked = [p for p in found if p.is_file()]
    assert len(checked) > 40
    for path in checked:
        data = path.read_bytes()
        assert why(data) == "", path
        assert why(data[1:]) == "", path


def test_numbers_without_a_form_are_none() -> None:
    for seed in range(20_000):
        data = random.Random(seed).randbytes(3_000)
        assert why(data) == "", seed


@given(data=st.binary(max_size=300))
def test_noise_behind_the_length_of_a_header_is_none(data: bytes) -> None:
    start = struct.pack("<Q", 0x280 + len(data))
    assert not is_pickle(io.BytesIO(start + data), 8 + len(data), Budget())


@given(words=st.lists(st.sampled_from([*WORDS, "system", "os", "tR.", "R", "(", "b"]), max_size=30))
def test_lists_of_words_are_none_unless_they_call_something(words: list[str]) -> None:
    text = "\n".join(words).encode()
    if is_pickle(io.BytesIO(text), len(text), Budget()):
        assert any(w[0] in "R.b" for w in words)


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    ),
    protocol=st.sampled_from(PROTOCOLS),
)
def test_whatever_is_pickled_is_found(value: object, protocol: int) -> None:
    assert why(pickle.dumps(value, protocol)) == "is a pickle"


@given(
    data=st.binary(max_size=500),
    head=st.sampled_from([b"", b"PK\x03\x04", b"\x93NUMPY", b"\x1f\x8b", b"BZh9", b"]\0\0"]),
)
def test_nothing_makes_it_break(data: bytes, head: bytes) -> None:
    why(head + data)


def test_a_renamed_pickle_is_named_and_refused(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_bytes(safetensors())
    bad.write_bytes(pickle.dumps(STATE, 2))
    refuse_pickles({"a/model.safetensors": good}, "hf://o/m@c")
    with pytest.raises(PickleRefused, match=r"'model.safetensors' of hf://o/m@c is a pickle: .*ignorePatterns"):
        refuse_pickles({"a/model.safetensors": good, "model.safetensors": bad}, "hf://o/m@c")
    with pytest.raises(StoreFailure, match="the file 'x'"):
        refuse_pickles({"x": tmp_path / "missing"}, "hf://o/m@c")
    assert not PickleRefused.retryable
