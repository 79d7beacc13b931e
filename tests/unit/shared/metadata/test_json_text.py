"""Untrusted JSON: a refusal names the file and the field."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.metadata.errors import MetadataError, MetadataMalformed, MetadataOversized
from shared.metadata.files import MemoryFiles
from shared.metadata.json_text import parse_json
from shared.metadata.reader import read_metadata
from tests.builders.model_files import CONFIGURATIONS, PIPELINE, config_of, read_files, safetensors

ALL = {name: config_of(name) for name in CONFIGURATIONS}

# A character of a name takes 12 bytes at most, so 80 stay below the limit of 1 KiB.
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=80), inner, max_size=4),
)
NAMES = sorted({key for config in ALL.values() for key in config} | {
    "architectures", "rope_scaling", "rope_parameters", "quantization_config", "torch_dtype", "auto_map", "id2label",
    "layer_types", "mlp_layer_types", "tie_word_embeddings", "num_labels", "kv_lora_rank", "moe_layers",
})  # fmt: skip
FILES = ("config.json", "params.json", "model_index.json", "tokenizer_config.json", "adapter_config.json",
         "sentence_bert_config.json", "modules.json", "hf_quant_config.json", "quantize_config.json")  # fmt: skip


@given(values)
def test_text_within_bounds_is_parsed_like_the_json_module(value: object) -> None:
    assert parse_json("f", json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("body", "kind", "field"),
    [
        (b'{"a": {"b": 1, "b": 2}}', MetadataMalformed, "b"),
        (b'{"a": NaN}', MetadataMalformed, ""),
        (b'{"a": -Infinity}', MetadataMalformed, ""),
        (b'{"a": ' + b"9" * 5000 + b"}", MetadataMalformed, ""),
        (b'{"a": "\xff"}', MetadataMalformed, ""),
        (b"{", MetadataMalformed, ""),
        (b"", MetadataMalformed, ""),
        (b'{"deep": ' + b"[" * 100_000, MetadataMalformed, "deep"),
        (b'{"a":' * 100_000, MetadataMalformed, "a.a"),
        (b'{"x": 1, "a": {"chat": "' + b"x" * 10_000_000 + b'"}}', MetadataOversized, "a.chat"),
        (b'{"x": ["' + b"x" * 10_000_000 + b'"]}', MetadataOversized, "x"),
        (b'{"many": [' + b"1," * 500_000 + b"1]}", MetadataOversized, "many"),
        (b" " * 3_000_000, MetadataOversized, ""),
    ],
)
def test_a_value_out_of_bounds_is_named_by_its_field(body: bytes, kind: type[MetadataError], field: str) -> None:
    with pytest.raises(kind) as caught:
        read_metadata(MemoryFiles({"config.json": body}))
    assert caught.value.file == "config.json"
    assert field in caught.value.field


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"hidden_size": "4096"}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"hidden_size": 1.5}, "hidden_size"),
        ({"hidden_size": 10**30}, "hidden_size"),
        ({"hidden_size": -7}, "hidden_size"),
        ({"architectures": "LlamaForCausalLM"}, "architectures"),
        ({"architectures": [1]}, "architectures"),
        ({"model_type": {"a": 1}}, "model_type"),
        ({"torch_dtype": 16}, "torch_dtype"),
        ({"rope_scaling": "linear", "max_position_embeddings": 1}, "rope_scaling"),
        ({"rope_scaling": {"factor": "4"}, "max_position_embeddings": 1}, "rope_scaling.factor"),
        ({"text_config": []}, "text_config"),
        ({"text_config": {"vocab_size": "x"}}, "text_config.vocab_size"),
        ({"quantization_config": 4}, "quantization_config"),
        ({"quantization_config": {"quant_method": 4}}, "quantization_config.quant_method"),
        ({"model_type": "\ud800"}, "model_type"),
        ({**ALL["llama-3.2-vision"], "text_config": {"cross_attention_layers": 8, "model_type": "mllama_text_model",
          "num_hidden_layers": 2}}, "text_config.cross_attention_layers"),
    ],
)  # fmt: skip
def test_a_wrong_type_names_the_field(config: dict[str, object], field: str) -> None:
    with pytest.raises(MetadataMalformed) as caught:
        read_files({"config.json": config})
    assert (caught.value.file, caught.value.field) == ("config.json", field)


@given(st.sampled_from(FILES), st.dictionaries(st.sampled_from(NAMES), values, max_size=8))
def test_any_object_is_read_or_refused(file: str, config: dict[str, object]) -> None:
    try:
        read_files({"config.json": {}, file: config})
    except MetadataError as error:
        assert error.file == file  # noqa: PT017 - both outcomes are right


@given(st.sampled_from(sorted(ALL)), st.dictionaries(st.sampled_from(NAMES), values, max_size=3))
def test_a_real_configuration_with_other_values_is_read_or_refused(name: str, other: dict[str, object]) -> None:
    try:
        read_files({"config.json": {**ALL[name], **other}})
    except MetadataError as error:
        assert error.file == "config.json"  # noqa: PT017 - both outcomes are right


@given(st.sampled_from(sorted(ALL)), st.data())
def test_a_real_configuration_with_another_value_anywhere_is_read_or_refused(name: str, data: st.DataObject) -> None:
    config = copy.deepcopy(ALL[name])
    place = config
    while True:
        key = data.draw(st.sampled_from(sorted({*place, *NAMES})))
        if not isinstance(place.get(key), dict):
            break
        place = place[key]
    place[key] = data.draw(values)
    try:
        found = read_files({"config.json": config, "pytorch_model.bin": bytes(1000)})
    except MetadataError as error:
        assert error.file == "config.json"  # noqa: PT017 - both outcomes are right
    else:
        assert 0 <= (found.parameters_active or 0) <= (found.parameters or 0) < 2**50
        assert (found.context_length or 0) >= 0


@given(st.dictionaries(st.sampled_from(("torch_dtype", "dtype", "_class_name", *NAMES)), values, max_size=3))
def test_a_part_of_a_pipeline_with_any_values_is_read_or_refused(config: dict[str, object]) -> None:
    weights = {"unet/diffusion_pytorch_model.bin": bytes(100), "vae/diffusion_pytorch_model.bin": bytes(8)}
    text = {"text_encoder/model.safetensors": safetensors({"a": ("F32", [3])})}
    try:
        found = read_files({**PIPELINE, **weights, **text, "unet/config.json": config})
    except MetadataError as error:
        assert error.file == "unet/config.json"  # noqa: PT017 - both outcomes are right
    else:
        assert found.parameters is None or found.parameters > 0


@given(st.sampled_from(FILES), st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(file: str, body: bytes) -> None:
    try:
        read_metadata(MemoryFiles({"model.safetensors": b"\2\0\0\0\0\0\0\0{}", file: body}))
    except MetadataError as error:
        assert error.file == file  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize("unit", [b'\\"', b'"', b"\\", b'\\"a', b'"\\', b'{"', b'"":'])
def test_an_unterminated_text_is_scanned_only_once(unit: bytes) -> None:
    """Sixteen MiB are scanned in time; a scan that restarts at each quote would take more than a day."""
    with pytest.raises(MetadataError):
        parse_json("config.json", (b'{"a": "' + unit * (16 * 2**20))[: 16 * 2**20])


def test_a_name_is_1_kib_at_most() -> None:
    assert parse_json("f", json.dumps({"k" * 1024: "v" * 2000}).encode())
    with pytest.raises(MetadataOversized, match="is a name of 1025 bytes"):
        parse_json("f", json.dumps({"a": [{"k" * 1025: 1}]}).encode())
