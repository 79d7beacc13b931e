"""Headers of GGUF: which are read, and which are refused."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.metadata.errors import MetadataError, MetadataMalformed, MetadataOversized
from shared.metadata.files import MemoryFiles
from shared.metadata.reader import read_metadata
from tests.builders.model_files import gguf, gguf_text, read_files

KEYS = {
    "general.architecture": "llama",
    "general.license": "apache-2.0",
    "general.file_type": 15,
    "llama.context_length": 8192,
    "llama.embedding_length": 256,
    "llama.block_count": 2,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": [1, 2],
    "llama.rope.freq_base": 10000.0,
    "llama.expert_count": 8,
    "llama.expert_used_count": 2,
    "tokenizer.ggml.tokens": [f"token {i}" for i in range(50)],
    "tokenizer.chat_template": "{{ messages }}",
    "tokenizer.ggml.add_bos_token": True,
}
# Q4_K has 144 bytes for 256 weights
TENSORS = {
    "token_embd.weight": (12, [256, 4], 0),
    "blk.0.ffn_up_exps.weight": (12, [256, 8], 576),
    "output_norm.weight": (0, [256], 1728),
}
MODEL = gguf(KEYS, TENSORS, data_bytes=2752)


def test_the_header_of_a_gguf_file_describes_the_model() -> None:
    found = read_files({"model-Q4_K_M.gguf": MODEL})
    assert (found.format, found.model_type, found.quantization) == ("gguf", "llama", "Q4_K_M")
    assert (found.context_length, found.vocabulary_size, found.layers) == (8192, 50, 2)
    assert (found.heads, found.kv_heads, found.experts, found.experts_active) == (4, 2, 8, 2)
    assert (found.parameters, found.parameters_active) == (1024 + 2048 + 256, 1024 + 512 + 256)
    assert (found.parameters_from, found.chat_template, found.licence) == ("headers", True, "apache-2.0")
    assert found.capabilities == ("TEXT_TO_TEXT",)


def test_the_parts_of_a_split_file_are_added_up() -> None:
    second = gguf({"split.no": 1}, {"blk.1.ffn_up.weight": (0, [4], 0)}, data_bytes=16)
    found = read_files({"m-00001-of-00002.gguf": MODEL, "m-00002-of-00002.gguf": second})
    assert found.parameters == 1024 + 2048 + 256 + 4


def test_one_of_several_quantizations_is_reported() -> None:
    other = gguf({**KEYS, "general.file_type": 7}, TENSORS, data_bytes=2752)
    found = read_files({"model-Q4_K_M.gguf": MODEL, "model-Q8_0.gguf": other, "mmproj-f16.gguf": b"x"})
    assert (found.quantization, found.weight_bytes) == ("Q4_K_M", len(MODEL))


class RecordedFiles(MemoryFiles):
    """Files that record the length of each read."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.lengths: list[int] = []

    def read(self, path: str, offset: int, length: int) -> bytes:
        self.lengths.append(length)
        return super().read(path, offset, length)


def test_a_long_list_of_tokens_is_read_once_in_small_parts() -> None:
    tokens = {"tokenizer.ggml.tokens": [f"{i}" * 40 for i in range(20_000)]}
    files = RecordedFiles({"m.gguf": gguf({**KEYS, **tokens}, TENSORS, data_bytes=2752)})
    assert files.sizes["m.gguf"] > 2**21
    assert read_metadata(files).vocabulary_size == 20_000
    assert max(files.lengths) <= 2**18
    assert files.read_bytes <= files.sizes["m.gguf"] + 2**18


def test_a_long_list_of_numbers_is_not_read() -> None:
    types = {"tokenizer.ggml.token_type": [1] * 1_000_000}
    files = MemoryFiles({"m.gguf": gguf({**KEYS, **types}, TENSORS, data_bytes=2752)})
    assert read_metadata(files).parameters == 1024 + 2048 + 256
    assert files.read_bytes <= 2 * 2**18
    assert files.sizes["m.gguf"] > 2**21


def starting(*parts: bytes) -> bytes:
    return b"GGUF" + b"".join(parts)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"GGUX" + bytes(40), "magic"),
        (b"GG", "magic"),
        (starting(struct.pack("<IQQ", 1, 0, 0)), "version"),
        (starting(struct.pack("<IQ", 3, 0)), "metadata_kv_count"),
        (starting(struct.pack("<IQQ", 3, 0, 1), struct.pack("<Q", 2**60)), "key"),
        (starting(struct.pack("<IQQ", 3, 0, 1), gguf_text("a"), struct.pack("<I", 99)), "a"),
        (starting(struct.pack("<IQQ", 3, 0, 1), gguf_text("a"), struct.pack("<IQ", 8, 2**63)), "a"),
        (starting(struct.pack("<IQQ", 3, 0, 1), gguf_text("a"), struct.pack("<IIQ", 9, 9, 1)), "a"),
        (starting(struct.pack("<IQQ", 3, 0, 1), gguf_text("a"), struct.pack("<IIQ", 9, 4, 5000)), "a"),
        (gguf({"a": 1}, {"t": (0, [4], 0)}, data_bytes=8), "t"),
        (gguf({"a": 1}, {"t": (0, [4], 2**60)}, data_bytes=16), "t"),
        (gguf({"a": 1}, {"t": (0, [2**62, 2**62], 0)}, data_bytes=16), "t"),
        (gguf({"a": 1}, {"t": (99, [2**62, 2**62], 0)}, data_bytes=16), "t"),
        (gguf({"a": 1}, {"t": (0, [1] * 9, 0)}, data_bytes=16), "t"),
        (gguf({"general.alignment": 0}, {"t": (0, [1], 0)}, data_bytes=16), "general.alignment"),
        (gguf({"general.architecture": "llama", "llama.block_count": "two"}, {}), "num_hidden_layers"),
    ],
)
def test_an_inconsistent_header_is_refused_with_the_field_named(body: bytes, field: str) -> None:
    with pytest.raises(MetadataMalformed, match=f"m.gguf, field {field}:"):
        read_files({"m.gguf": body})


@pytest.mark.parametrize(
    "body",
    [
        starting(struct.pack("<IQQ", 3, 2**40, 0)),
        starting(struct.pack("<IQQ", 3, 0, 2**40)),
        starting(struct.pack("<IQQ", 3, 0, 1), gguf_text("a"), struct.pack("<IIQ", 9, 8, 2**40)),
        starting(struct.pack("<IQQ", 3, 0, 1), gguf_text("a" * 2000)),
        gguf({"a": "x" * 300_000}, {}),
    ],
)
def test_a_header_larger_than_any_real_one_is_not_read(body: bytes) -> None:
    with pytest.raises(MetadataOversized, match=r"m\.gguf"):
        read_files({"m.gguf": body})


@given(st.data())
def test_a_damaged_file_is_read_or_refused(data: st.DataObject) -> None:
    damaged = bytearray(MODEL)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(4, 1500))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    for body in (damaged, damaged[:cut]):
        try:
            read_files({"m.gguf": bytes(body)})
        except MetadataError as error:
            assert "m.gguf" in str(error)  # noqa: PT017 - both outcomes are right


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for start in (b"", b"GGUF\x03\0\0\0", starting(struct.pack("<IQQ", 3, 1, 1))):
        try:
            read_files({"m.gguf": start + body})
        except MetadataError as error:
            assert error.file == "m.gguf"  # noqa: PT017 - both outcomes are right


def test_the_kv_cache_of_latent_attention_holds_the_latent_vector_only() -> None:
    keys = {"general.architecture": "deepseek2", "deepseek2.block_count": 27, "deepseek2.attention.head_count": 16,
            "deepseek2.embedding_length": 2048, "deepseek2.attention.key_length": 192,
            "deepseek2.attention.kv_lora_rank": 512, "deepseek2.rope.dimension_count": 64}  # fmt: skip
    found = read_files({"m.gguf": gguf(keys, {})})
    assert (found.kv_cache_bytes_per_token, found.head_dim) == (27 * (512 + 64) * 2, 192)
