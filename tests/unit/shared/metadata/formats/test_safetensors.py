"""Headers of safetensors: which tensors are counted, and which headers are refused."""

import json
import threading
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.metadata.errors import MetadataError, MetadataMalformed, MetadataOversized
from shared.metadata.files import MemoryFiles
from shared.metadata.formats.tensors import BITS
from shared.metadata.reader import read_metadata
from tests.builders.model_files import read, read_files, safetensors, with_header

SOON_S = 30.0
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
KINDS = sorted(kind for kind, bits in BITS.items() if bits % 8 == 0 and kind != "U8")
tensors = st.dictionaries(
    st.builds(
        "layers.{}.{}.weight".format, st.text("0123456789", min_size=1, max_size=4), st.sampled_from(["up", "down"])
    ),
    st.tuples(st.sampled_from(KINDS), st.lists(st.integers(0, 9), max_size=4)),
    min_size=1,
    max_size=20,
)


@given(tensors, st.data())
def test_a_tensor_in_several_shards_counts_once_with_all_its_elements(
    stored: dict[str, tuple[str, list[int]]], data: st.DataObject
) -> None:
    names = st.lists(st.sampled_from(sorted(stored)), min_size=1, unique=True)
    shards = data.draw(st.lists(names, min_size=1, max_size=4))
    files = {
        f"model-{i:05d}-of-{len(shards):05d}.safetensors": safetensors({name: stored[name] for name in shard})
        for i, shard in enumerate(shards, 1)
    }
    found = read_files({"config.json": {}, **files})
    elements = sum(prod(stored[name][1]) for name in set().union(*shards))
    assert found.parameters == (elements or None)


def test_a_tensor_with_several_shapes_counts_as_in_the_first_shard_however_slow_that_is() -> None:
    shards = {f"model-0000{number}-of-00002.safetensors": safetensors({"a": ("F16", [number])}) for number in (1, 2)}
    first, second = shards
    second_was_read = threading.Event()

    class SlowFirst(MemoryFiles):
        def read(self, path: str, offset: int, length: int) -> bytes:
            assert path != first or second_was_read.wait(SOON_S)
            found = super().read(path, offset, length)
            if path == second:
                second_was_read.set()
            return found

    assert read_metadata(SlowFirst({"config.json": b"{}", **shards})).parameters == 1


@pytest.mark.parametrize(
    ("quantizer", "stored", "parameters"),
    [
        # 4 bits in words of 32, along the input: 512 x 1024 weights
        (
            {"quant_method": "gptq", "bits": 4},
            {"a.qweight": ("I32", [64, 1024]), "a.qzeros": ("I32", [4, 128]), "a.scales": ("F16", [4, 1024]),
             "a.g_idx": ("I32", [512])},
            512 * 1024,
        ),
        # 3 bits: 96 words of 32 hold 1024 weights of a column
        ({"quant_method": "gptq", "bits": 3}, {"a.qweight": ("I32", [96, 8])}, 1024 * 8),
        ({"quant_method": "gptq", "bits": 8}, {"a.qweight": ("I32", [128, 8])}, 512 * 8),
        (
            {"quant_method": "awq", "bits": 4},
            {"a.qweight": ("I32", [512, 128]), "a.qzeros": ("I32", [4, 128]), "a.scales": ("F16", [4, 1024])},
            512 * 1024,
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4}}}},
            {"a.weight_packed": ("I32", [16, 8]), "a.weight_scale": ("BF16", [16, 1]), "a.weight_shape": ("I64", [2])},
            16 * 64,
        ),
        (
            {"quant_method": "fp8"},
            {"a.weight": ("F8_E4M3", [128, 128]), "a.weight_scale_inv": ("F32", [1, 1])},
            128 * 128,
        ),
        (
            {"quant_method": "mxfp4"},
            {"experts.up_proj_blocks": ("U8", [2, 4, 3, 16]), "experts.up_proj_scales": ("U8", [2, 4, 3])},
            2 * 4 * 3 * 32,
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4"},
            {"a.weight": ("U8", [16, 8]), "a.weight_scale": ("F8_E4M3", [16, 1]), "a.weight_scale_2": ("F32", []),
             "a.input_scale": ("F32", [])},
            16 * 16,
        ),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True},
            {"a.weight": ("U8", [64, 1]), "a.weight.absmax": ("U8", [2]), "a.weight.quant_map": ("F32", [16]),
             "a.weight.nested_absmax": ("F32", [1]), "a.weight.nested_quant_map": ("F32", [256]),
             "a.weight.quant_state.bitsandbytes__nf4": ("U8", [90])},
            128,
        ),
        (
            {"quant_method": "bitsandbytes", "load_in_8bit": True},
            {"a.weight": ("I8", [8, 8]), "a.SCB": ("F32", [8])},
            64,
        ),
    ],
)  # fmt: skip
def test_packed_weights_count_unpacked_and_scales_do_not_count(
    quantizer: dict[str, object], stored: dict[str, tuple[str, list[int]]], parameters: int
) -> None:
    found = read(config_json={**CONFIG, "quantization_config": quantizer}, model_safetensors=safetensors(stored))
    assert (found.parameters, found.parameters_from) == (parameters, "headers")


def test_four_bit_experts_count_two_per_byte_beside_eight_bit_weights() -> None:
    weights = safetensors({
        "layers.0.ffn.experts.0.w1.weight": ("I8", [4, 8]),
        "layers.0.ffn.experts.0.w1.scale": ("F8_E8M0", [4, 1]),
        "layers.0.attn.wq_a.weight": ("F8_E4M3", [4, 16]),
        "layers.0.ffn.gate.tid2eid": ("I64", [10, 6]),
    })  # fmt: skip
    config = {"expert_dtype": "fp4", "quantization_config": {"quant_method": "fp8"}}
    found = read(config_json=config, model_safetensors=weights)
    assert (found.parameters, found.quantization) == (2 * 4 * 8 + 4 * 16, "fp8")


def test_weights_packed_by_mlx_are_counted() -> None:
    weights = safetensors({"a.weight": ("U32", [4, 8]), "a.scales": ("F16", [4, 1]), "a.biases": ("F16", [4, 1])})
    found = read(config_json={"quantization_config": {"group_size": 64, "bits": 4}}, model_safetensors=weights)
    assert (found.parameters, found.quantization, found.quantization_bits) == (4 * 8 * 8, "int4", 4)


def test_buffers_do_not_count_as_parameters() -> None:
    stored = {
        "h.0.attn.bias": ("F32", [1, 1, 8, 8]), "h.0.attn.c_attn.bias": ("F32", [24]),
        "rotary_emb.inv_freq": ("F32", [4]), "embeddings.position_ids": ("I64", [1, 8]),
    }  # fmt: skip
    assert read(config_json=CONFIG, model_safetensors=safetensors(stored)).parameters == 24


def test_learned_scales_count_as_parameters() -> None:
    stored = {
        "logit_scale": ("F32", []), "double_blocks.0.img_attn.norm.query_norm.scale": ("BF16", [128]),
        "language_model.layers.0.altup.correct_output_scale": ("BF16", [32]),
        "conformer.0.attention.attn.per_dim_scale": ("BF16", [8]), "encoder.self_attn_layer_scale.scale": ("F32", [4]),
        "layers.0.self_attn.k_scale": ("F32", [1]), "layers.0.mlp.down_proj.weight_scale": ("F32", [1]),
    }  # fmt: skip
    assert read(config_json=CONFIG, model_safetensors=safetensors(stored)).parameters == 1 + 128 + 32 + 8 + 4


def test_active_parameters_are_recognised_by_the_names_of_experts() -> None:
    experts = {f"mlp.experts.{i}.up.weight": ("BF16", [10]) for i in range(8)}
    stored = {**experts, "mlp.shared_experts.up.weight": ("BF16", [10]), "embed.weight": ("BF16", [100])}
    config = {**CONFIG, "num_experts": 8, "num_experts_per_tok": 2}
    found = read(config_json=config, model_safetensors=safetensors(stored))
    assert (found.parameters, found.parameters_active) == (190, 130)


def test_a_set_with_a_missing_shard_is_not_counted() -> None:
    found = read_files({"config.json": CONFIG, "model-00001-of-00002.safetensors": safetensors({"a": ("F32", [3])})})
    assert (found.parameters, found.parameters_from) == (None, "")


def test_a_consolidated_copy_of_the_weights_is_not_counted() -> None:
    one, other = safetensors({"a.weight": ("F32", [3])}), safetensors({"tok.weight": ("F32", [3])})
    found = read_files({"config.json": CONFIG, "model.safetensors": one, "consolidated.safetensors": other})
    assert (found.parameters, found.weight_bytes) == (3, len(one))


def header(**tensor: object) -> bytes:
    return json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **tensor}}).encode()


TWICE = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "header"),
        (b"\x10", "header"),
        (b"\xff" * 8 + b"{}", "header"),
        (with_header(b"{}", 4), "header"),
        (with_header(b"[1]", 0), "header"),
        (with_header(b"[" * 5000, 0), "header"),
        (with_header(b'{"a": 1}', 0), "a"),
        (with_header(header(data_offsets=[0, 400]), 4), "a"),
        (with_header(header(data_offsets=[4, 8]), 8), "a"),
        (with_header(header(data_offsets=[-4, 0]), 4), "a"),
        (with_header(header(shape=[2]), 4), "a"),
        (with_header(header(shape=[-1]), 4), "a"),
        (with_header(header(shape="x"), 4), "a"),
        (with_header(header(dtype=3), 4), "a"),
        (with_header(header(shape=[2**62, 2**62]), 4), "a"),
        (with_header(header(shape=[2**62], dtype="Q9"), 4), "a"),
        (with_header(header(shape=[2**62] * 300_000), 4), "a"),
        (with_header(b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}', 4), "header"),
        (with_header(TWICE, 8), "a"),
    ],
)
def test_an_inconsistent_header_is_refused_with_the_field_named(body: bytes, field: str) -> None:
    with pytest.raises(MetadataMalformed, match=f"model.safetensors, field {field}"):
        read(config_json={}, model_safetensors=body)


def test_a_huge_header_is_not_read() -> None:
    with pytest.raises(MetadataOversized, match="header"):
        read(config_json={}, model_safetensors=with_header(b" " * (9 * 2**20), 0))


@pytest.mark.parametrize("colon", [b":", b" :", b"\n\t :"])
def test_too_many_keys_are_refused_whatever_the_whitespace(colon: bytes) -> None:
    body = with_header(b"{" + b",".join([b'"a"' + colon + b"0"] * 500_000) + b"}", 0)
    with pytest.raises(MetadataOversized, match="header: has more than"):
        read(config_json={}, model_safetensors=body)


def test_metadata_may_cover_the_maximum_number_of_tensors() -> None:
    many = {f"layers.{n}.weight": ("BF16", (1,)) for n in range(60_000)}
    assert read_files({"m.safetensors": safetensors(many)}).parameters == 60_000


@given(st.binary(max_size=200), st.integers(0, 64))
def test_any_bytes_are_read_or_refused(body: bytes, data_bytes: int) -> None:
    for file in (body, with_header(body, data_bytes)):
        try:
            read(model_safetensors=file)
        except MetadataError as error:
            assert error.file == "model.safetensors"  # noqa: PT017 - both outcomes are right


@given(st.data())
def test_a_damaged_file_is_read_or_refused(data: st.DataObject) -> None:
    good = bytearray(safetensors({"a.weight": ("F32", [2, 2]), "b.weight": ("BF16", [3])}))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        read(model_safetensors=bytes(good))
    except MetadataError as error:
        assert "model.safetensors" in str(error)  # noqa: PT017 - both outcomes are right


def test_a_name_is_1_kib_at_most() -> None:
    assert read_files({"m.safetensors": safetensors({"n" * 1024: ("BF16", (3,))})}).parameters == 3
    with pytest.raises(MetadataOversized, match="a name of 1025 characters"):
        read_files({"m.safetensors": safetensors({"n" * 1025: ("BF16", (3,))})})
