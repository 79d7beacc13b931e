"""Which files are accepted: each kind by its name and content, and no pickle under any name."""

import collections
import gzip
import io
import json
import os
import pickle
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import PickleRefused, StoreFailure
from shared.safe_files.file_kinds import why_unsafe
from shared.safe_files.pickle_tracer import may_load_as_pickle
from shared.safe_files.refuse import refuse_pickles
from tests.builders.archives import tar, zipped
from tests.unit.shared.safe_files.refusal import NAMES, accepting_names, why

LOCAL = Path(__file__).parents[4]


class Attack:
    """Calls a function when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("true",)


STATE = collections.OrderedDict(weight=[1.0, 2.0], bias=(None, {"a": b"x" * 100}))
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def npy(descr: str, data: bytes = b"", major: int = 1, shape: str = "(2,)") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    length = struct.pack("<H" if major == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes((major, 0)) + length + header + data


def safetensors(header_bytes: int = 0, data: bytes = bytes(256)) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}}).encode()
    padded = header.ljust(max(header_bytes, len(header)))
    return struct.pack("<Q", len(padded)) + padded + data


def sentencepiece() -> bytes:
    pieces = (f"▁piece{n}".encode() for n in range(3000))
    return b"".join(
        b"\n" + bytes((len(p) + 7,)) + b"\n" + bytes((len(p),)) + p + b"\x15\x00\x00\x00\x00" for p in pieces
    )


GGUF = b"GGUF" + struct.pack("<IQQ", 3, 291, 24) + b"\x14\0\0\0\0\0\0\0general.architecture"
ONNX = b"\x08\x07\x12\x07pytorch\x1a\x052.0.1" + bytes(500)
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(100)
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(500)
WHISPER = b"\x06\x00\x00\x00\x0c\x00WhisperSpec\x00\x03\x00\x00\x00" + bytes(500)
EVENT = b"\x09\x36\x5e\xba\x5d\x1d\x9a\xd9\x41\x1a\x0dbrain.Event:2"
EVENTS = struct.pack("<Q", len(EVENT)) + b"\xa3\x7f\x4b\x22" + EVENT + bytes(4)
TENSORS = random.Random(3).randbytes(4096)


class TestPickles:
    @pytest.mark.parametrize("protocol", PROTOCOLS)
    @pytest.mark.parametrize(
        "value", [STATE, Attack(), {"plain": [1, 2, "x"]}, [b"\x00" * 100_000], None, 3, "text", (1,)]
    )
    def test_a_pickle_of_any_protocol_is_refused(self, protocol: int, value: object) -> None:
        assert {why(pickle.dumps(value, protocol), name) for name in NAMES} == {"is a pickle"}

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_consecutive_pickles_as_old_torch_wrote_them_are_refused(self, protocol: int) -> None:
        parts = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, STATE, ["1", "2"]]
        rows = b"".join(pickle.dumps(part, protocol) for part in parts)
        assert accepting_names(rows) == []
        if protocol >= 2:
            assert accepting_names(rows + struct.pack("<q", 4) + os.urandom(16)) == []

    @pytest.mark.parametrize(
        "code",
        [
            b"cos\nsystem\n(S'true'\ntR.",
            b"cos\nsystem\n(S'true'\ntRbroken from here on",  # the code has run by then
            b"(S'true'\nios\nsystem\n.",
            b"(cos\nsystem\nS'true'\no.",
            b"(I1\nI2\ntp0\n0cos\nsystem\np1\n0g1\n(S'true'\ntR",
            b"(lp0\nI0x10\na0cos\nsystem\n(S'true'\ntR.",
            b"V" + b"x" * 200_000 + b"\n0cos\nsystem\n(S'true'\ntR.",  # after a long line
            b"V" + b"x" * 20_000_000 + b"\n0cos\nsystem\n(S'true'\ntR.",  # longer than the longest line that is read
            b"B" + struct.pack("<i", 2**21) + bytes(2**21) + b"0cos\nsystem\n(S'true'\ntR.",  # after a long value
            b"N0" * 50_000 + b"cos\nsystem\n)R.",
            b"\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",  # without a header
            b"\x80\x04cos\nsystem\nnot even called",  # an import runs code as well
            b"csys\nmodules\nS'os'\nNs.",  # changes an attribute of a module
            b"cos\nsystem\n}b.",
            b"S'os'\nS'system'\n\x93)R",
        ],
    )
    def test_a_pickle_that_runs_code_before_its_end_is_refused(self, code: bytes) -> None:
        assert accepting_names(code) == []

    def test_new_and_old_torch_archives_are_refused(self) -> None:
        members = {"archive/version": b"3\n", "archive/data/0": bytes(1000), "archive/data.pkl": pickle.dumps(STATE, 2)}
        assert accepting_names(zipped(members)) == []
        assert accepting_names(tar({"sys_info": pickle.dumps({}, 2), "pickle": pickle.dumps(STATE, 2)})) == []

    @given(
        value=st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
            lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
        ),
        protocol=st.sampled_from(PROTOCOLS),
    )
    def test_no_pickled_value_is_accepted(self, value: object, protocol: int) -> None:
        assert accepting_names(pickle.dumps(value, protocol)) == []

    @given(data=st.binary(max_size=500), head=st.sampled_from([b"", b"PK\x03\x04", b"\x93NUMPY", b"GGUF", b"]\0\0"]))
    def test_arbitrary_input_raises_no_unexpected_error(self, data: bytes, head: bytes) -> None:
        accepting_names(head + data)

    def test_persistent_ids_are_ignored(self) -> None:
        """A header of safetensors whose length begins with PERSID, which CPython ignores."""
        text = b'{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'.ljust(0x150)
        assert why(struct.pack("<Q", 0x150) + text + b"\nN.x", "m.safetensors") == ""
        assert why(struct.pack("<Q", 0x150) + text + b"\n)Rx", "m.safetensors") == "is a pickle"

    def test_numbers_without_a_format_are_ignored(self) -> None:
        for seed in range(20_000):
            data = random.Random(seed).randbytes(3_000)
            assert not may_load_as_pickle(io.BytesIO(data), len(data)), seed
            assert why(data, "m.onnx_data") == "", seed

    def test_quantized_tensor_bytes_are_not_mistaken_for_a_pickle(self) -> None:
        """Such as 0x82, EXT1, which has no effect in a program that registers no extensions."""
        for byte in range(256):
            assert why(bytes((0x82, byte, 0x7F, 0x81)) + TENSORS, "m.onnx_data") == "", byte
        assert why(b"\x83\1\1)R" + TENSORS, "m.onnx_data") == why(b"\x84\1\0\0\0)R" + TENSORS, "m.onnx_data") == ""


# Files of popular repositories, and the bytes that they begin with.
ACCEPTED: dict[str, bytes] = {
    ".gitattributes": b"*.bin filter=lfs diff=lfs merge=lfs -text\n",
    "README.md": b"---\nlicense: mit\n---\n# Model\n",
    "LICENSE": b"Copyright (c) 2024 The Authors\n\nPermission is hereby granted,\n free of charge\n",
    "LICENSE.txt": b"MIT License\n\nCopyright (c) 2024\n",
    "LICENSE-MODEL": b"(c) 2023 Someone\nAll rights reserved.\n",
    "USE_POLICY.md": b"LLAMA 3.1 COMMUNITY LICENSE AGREEMENT\nLlama 3.1 Version\n",
    "NOTICE": b"Gemma Terms of Use\n",
    "Notice.txt": b"I am a model.\nI1 is a number.\n",
    "config.json": json.dumps({"a": [1, None]}).encode(),
    "generation_config.json": b"{}",
    "model.safetensors.index.json": b'{\n  "weight_map": {}\n}\n',
    "tokenizer.json": b'{"version": "1.0", "model": {"vocab": {"\xc4\xa0t": 1}}}',
    "tokenizer_config.json": b"{}\r\n",
    "special_tokens_map.json": b"\xef\xbb\xbf{}",
    "tekken.json": b"{}",
    "params.json": b"{}",
    "vocab.json": '{"Ġthe": 1}'.encode(),
    "vocab.txt": b"[PAD]\n[unused0]\n##s\n\xe2\x96\x81the\n",
    "labels.txt": b"cat\ndog\nelephant\nfox\n",
    "requirements.txt": b"click\nnumpy\ntorch\n",
    "merges.txt": "#version: 0.2\n\u0120 t\n\u0120 a\n".encode(),
    "qwen.tiktoken": b"IQ== 0\nIg== 1\nIw== 2\n",
    "original/tokenizer.model": b"IQ== 0\nIg== 1\nIw== 2\n",
    "tokenizer.model": sentencepiece(),
    "sentencepiece.bpe.model": b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02",
    "source.spm": sentencepiece(),
    "tokenizer.model.v3": sentencepiece(),
    "tokenizer.model.v7": sentencepiece(),
    "tokenizer.model.v7m1": sentencepiece(),
    "rwkv_vocab_v20230424.txt": b"1 '\\x00' 1\n2 '\\x01' 1\n",
    "chat_template.jinja": b"{{ bos_token }}\n{% for m in messages %}",
    "modeling_custom.py": b"import torch\n\n\nclass Model:\n    pass\n",
    "configuration_custom.py": b"# coding=utf-8\nfrom transformers import PretrainedConfig\n",
    "handler.py": b"class EndpointHandler:\n    pass\n",
    "notebook.ipynb": b'{"cells": []}',
    "config.yaml": b"model: x\n",
    "config.toml": b"[model]\n",
    "Modelfile": b"FROM ./model.gguf\n",
    "openvino_model.xml": b"<?xml version='1.0'?>\n<net/>\n",
    "cuda/kernel.cu": b"#include <cuda.h>\n",
    "__init__.py": b"",
    "pointer.bin.txt": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
    "model.safetensors": safetensors(),
    "model-00001-of-00002.SAFETENSORS": safetensors(0x258),
    "adapter_model.safetensors": safetensors(0x9C78, TENSORS[:256]),
    "model-Q4_K_M.gguf": GGUF + TENSORS,
    "onnx/model_quantized.onnx": ONNX,
    "onnx/model.onnx_data": TENSORS,
    "onnx/model.onnx_data_1": bytes(4096),
    "onnx/model.onnx.data": struct.pack("<4f", 0.0, 1.0, -1.0, 0.5) * 64,
    "model.bin": WHISPER,
    "ggml-base.en.bin": b"lmgg" + struct.pack("<5I", 51864, 1500, 512, 8, 6),
    "ggml-model-q4_0.bin": b"tjgg" + struct.pack("<5I", 3, 32000, 4096, 256, 32),
    "ggml-model-f16.bin": b"fmgg" + struct.pack("<5I", 1, 32000, 4096, 256, 32),
    ".DS_Store": b"\0\0\0\x01Bud1" + bytes(100),
    "onnx/.DS_Store": b"\0\0\0\x01Bud1" + bytes(100),
    "runs/Jan01_host/events.out.tfevents.1700000000.host.1.0": EVENTS,
    "logs/events.out.tfevents.1700000000.host.1.0.v2": EVENTS.replace(b"\x24", b"\x58", 1),
    "fonts/a.ttf": b"\0\x01\0\0\0\x0e\0\x80\0\x03\0\x60GDEF" + bytes(50),
    "fonts/b.ttf": b"true\0\x0e" + bytes(50),
    "fonts/a.otf": b"OTTO\0\x0e" + bytes(50),
    "fonts/a.woff2": b"wOF2\0\x01\0\0" + bytes(50),
    "model.tflite": b"\x1c\x00\x00\x00TFL3" + bytes(300),
    "voices/af.npy": npy("'<f4'", TENSORS[:8]),
    "mean.npy": npy("'|u1'", TENSORS[:768], 2, "(3, 1, 256)"),
    "times.npy": npy("'<M8[ns]'", TENSORS[:8], 3, "()"),
    "names.npy": npy("'<U5'", TENSORS[:40], 1, "(2,)"),
    "empty.npy": npy("'<f4'", b"", 1, "(0, 7)"),
    "figures/benchmark.png": PNG,
    "figures/a.jpg": PNG,  # pictures with the wrong suffix are common
    "assets/logo.jpeg": JPEG,
    "assets/logo.webp": b"RIFF\x24\x00\x00\x00WEBPVP8 ",
    "assets/demo.gif": b"GIF89a\x58\x02\x40\x01\xf7",
    "assets/logo.svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>',
    "paper.pdf": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    "examples/a.wav": b"RIFF\x24\x00\x00\x00WAVEfmt ",
    "examples/a.flac": b"fLaC\0\0\0\x22",
    "examples/a.mp3": b"ID3\x04\0\0\0\0\0\x23",
    "examples/a.mp4": b"\0\0\0\x20ftypisom",
    "examples/a.mov": b"\0\0\0\x08wide\0\x01\0\0mdat",
    "examples/b.mov": b"\0\x01\x0c\x20moov\0\0\0\x6cmvhd",
    "assets/logo.avif": b"\0\0\0\x1cftypavif",
}
# Other files of popular repositories: pickles, files that loaders may take for pickles, code, and unknown formats.
REFUSED: dict[str, bytes] = {
    "pytorch_model.bin": TENSORS,
    "consolidated.00.pth": TENSORS,
    "model.pt": b"a text",
    "scheduler.pkl": b"{}",
    "tf_model.h5": b"\x89HDF\r\n\x1a\n" + bytes(500),
    "flax_model.msgpack": b"\x85\xa6params" + bytes(100),
    "rust_model.ot": zipped({"a": b"b"}),
    "weights.npz": zipped({"a.npy": npy("'<f4'", bytes(8))}),
    "saved_model.pb": b"\x08\x01\x12\x90" + bytes(100),
    "model.keras": zipped({"metadata.json": b"{}"}),
    "m.nemo": tar({"a": b"b"}),
    "m.tar.gz": gzip.compress(tar({"a": b"b"})),
    "openvino_model.bin": TENSORS,
    "imatrix.dat": TENSORS,
    "m.imatrix": TENSORS,
    "shelf.dat": b"a text\n",
    "shelf.dir": b"'key', (0, 20)\n",
    "saved_model.pbtxt": b"saved_model_schema_version: 1\n",
    "model.hdf5": b"a text\n",
    "model.hdf": b"a text\n",
    "model.he5": b"a text\n",
    "weights.keras": b"a text\n",
    "events.out.tfevents.1": TENSORS,
    "notes.tfevents": EVENTS,
    "a.ttf": TENSORS,
    ".DS_Store": TENSORS,
    "a.DS_Store": b"\0\0\0\x01Bud1" + bytes(100),
    "tokenizer.model.v3": TENSORS,
    "libkernel.so": b"\x7fELF\x02\x01\x01" + bytes(300),
    "model": TENSORS,
    "notes.txt": "Version\nConfig".encode("utf-16"),
    "config.json": b"{}" + bytes(3),
    "latin.txt": b"caf\xe9 au lait\n",
    "model.safetensors": TENSORS,
    "picture.png": TENSORS,
}


class TestKinds:
    @pytest.mark.parametrize("name", ACCEPTED)
    def test_files_of_popular_repositories_are_accepted(self, name: str) -> None:
        assert why(ACCEPTED[name], name) == ""

    @pytest.mark.parametrize("name", REFUSED)
    def test_files_of_unlisted_kinds_are_refused(self, name: str) -> None:
        assert why(REFUSED[name], name)

    @pytest.mark.parametrize("name", NAMES)
    def test_an_empty_file_is_accepted_under_any_name(self, name: str) -> None:
        assert why(b"", name) == ""

    def test_content_that_does_not_match_its_file_name_is_refused(self) -> None:
        """The content of one kind under the name of another is refused, and so are pictures under names of no kind."""
        names = ("model.safetensors", "model.tflite", "model.bin", "tokenizer.model")
        binary = {name: ACCEPTED[name] for name in names}
        for own, data in {**binary, "a.gguf": GGUF, "a.onnx": ONNX, "a.png": PNG}.items():
            ending = own.rpartition(".")[2]
            accepting = {name.rpartition(".")[2] for name in accepting_names(data)}
            assert accepting <= {ending, "onnx_data"}, own
        assert why(b"a text\n", "model.safetensors") == "is not a safetensors file"
        assert why(b"a text\n", "pytorch_model.bin") == "is neither GGML nor CTranslate2"
        assert why(b"a text\n", "model.pt") == "has a file type that may contain a pickle"
        assert why(PNG, "image") == "is not of a type that is known to be free of pickles"

    @pytest.mark.parametrize(
        "data",
        [
            safetensors()[:-1],
            safetensors() + b"x",
            safetensors(data=bytes(512)),
            struct.pack("<Q", 2**63) + b"\xff" * 100,
            struct.pack("<Q", 2) + b"{}" + b"x",
            struct.pack("<Q", 3) + b"{,}",
            struct.pack("<Q", 100) + b"[" * 100,
            b"\x01",
        ],
    )
    def test_safetensors_whose_header_does_not_describe_every_byte_are_refused(self, data: bytes) -> None:
        assert why(data, "m.safetensors") == "is not a safetensors file"

    @pytest.mark.parametrize(
        "descr",
        [
            "'|O'", "'O'", "'object'", "'object_'", "'O,i4'", "'i4, O'", "'2O'", "'(2,)O'", r"'\x4f'", r"'\174O'",
            "'|' 'O'", "'ob''ject'", "'ob' # not yet\n'ject'", "u'O'", '[(("t", "n"), "O8")]', f"{' ' * 2**20}'O'",
            "[('a', '<f4'), ('b', '|O')]", "'<f4', 'descr': 'O'", "[('a', '<f4')]",
        ],
    )  # fmt: skip
    def test_arrays_of_anything_but_plain_values_are_refused(self, descr: str) -> None:
        assert why(npy(descr, pickle.dumps(["x"], 3), 2), "a.npy") == "is not an array of plain values"

    @pytest.mark.parametrize(
        "data",
        [
            npy("'<f4'", bytes(8) + npy("'<f4'", bytes(8))),
            npy("'<f4'", bytes(7)),
            npy("'<f4'", bytes(8), 1, "(3,)"),
            npy("'<U2'", bytes(4)),
            npy("'<f4'", bytes(8)).replace(b"\x93NUMPY\x01\0", b"\x93NUMPY\x01\0\x10")[:-1],
        ],
    )
    def test_arrays_with_more_or_fewer_bytes_than_declared_are_refused(self, data: bytes) -> None:
        assert why(data, "a.npy") == "is not an array of plain values"

    def test_a_text_is_checked_to_its_end(self) -> None:
        long = "ä€😀".encode() * 350_000
        for cut in range(9):
            assert why(b"-" * cut + long, "a.md") == ""
        assert len(long) > 3 * 2**20
        for place in (0, 2**20 - 1, 2**20, 2 * 2**20 + 7, len(long)):
            assert why(b"-" * place + b"\0" + long[: -place or None], "a.md") != ""
            assert why(b"-" * place + b"\xe2" + b"-" * (len(long) - place), "a.md") != ""

    def test_a_text_that_is_too_long_to_be_read_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes(b"a text\n")
        with path.open("rb") as file:
            assert why_unsafe(path.name, file, 2**30) == ""
            assert why_unsafe(path.name, file, 2**30 + 1) == "is not of a type that is known to be free of pickles"

    def test_texts_of_this_project_are_accepted(self) -> None:
        found = [*LOCAL.glob("docs/**/*"), *LOCAL.glob("*/*.py"), *LOCAL.glob("shared/**/*.py"), *LOCAL.glob("*")]
        checked = [p for p in found if p.is_file()]
        assert len(checked) > 40
        for path in checked:
            assert why(path.read_bytes(), path.name) == "", path

    def test_a_large_file_is_not_read_through(self, tmp_path: Path) -> None:
        """The file is sparse and larger than could be read."""
        header = json.dumps({"w": {"dtype": "U8", "shape": [2**40], "data_offsets": [0, 2**40]}}).encode()
        for name, start, size in (
            ("m.safetensors", struct.pack("<Q", len(header)) + header, 8 + len(header) + 2**40),
            ("m.gguf", GGUF, 2**40),
            ("m.onnx_data", TENSORS, 2**40),
        ):
            path = tmp_path / name
            path.write_bytes(start)
            os.truncate(path, size)
            with path.open("rb") as file:
                assert why_unsafe(name, file, size) == ""


class TestRefusal:
    def test_a_renamed_pickle_is_named_and_refused(self, tmp_path: Path) -> None:
        good, bad = tmp_path / "good", tmp_path / "bad"
        good.write_bytes(safetensors())
        bad.write_bytes(pickle.dumps(STATE, 2))
        refuse_pickles({"a/model.safetensors": good}, "hf://o/m@c")
        with pytest.raises(PickleRefused, match=r"'model.safetensors' of hf://o/m@c is a pickle: .*ignorePatterns"):
            refuse_pickles({"a/model.safetensors": good, "model.safetensors": bad}, "hf://o/m@c")
        with pytest.raises(PickleRefused, match=r"'m/data.h5' of hf://o/m@c has a file type"):
            refuse_pickles({"m/data.h5": good}, "hf://o/m@c")
        with pytest.raises(StoreFailure, match="the file 'x'"):
            refuse_pickles({"x": tmp_path / "missing"}, "hf://o/m@c")
        assert not PickleRefused.retryable
