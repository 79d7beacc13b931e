"""The metadata that is read from a model's files."""

from typing import Any

import pytest

from shared.metadata.errors import MetadataMissing
from shared.metadata.model_metadata import Adapter, Component, Metadata
from shared.metadata.ome import ome_fields, size_label
from tests.builders.model_files import config_of, read, read_files, safetensors

LLAMA = config_of("llama-3.1")


def test_a_language_model_is_described_by_its_configuration() -> None:
    found = read(config_json=LLAMA, tokenizer_config_json={"chat_template": "{{ messages }}"})
    assert found == Metadata(
        model_type="llama",
        architectures=("LlamaForCausalLM",),
        framework="transformers",
        framework_version="4.43.0",
        dtype="bfloat16",
        context_length=131072,
        vocabulary_size=128256,
        hidden_size=4096,
        layers=32,
        heads=32,
        kv_heads=8,
        head_dim=128,
        size_bytes=found.size_bytes,
        kv_cache_bytes_per_token=2 * 32 * 8 * 128 * 2,
        capabilities=("TEXT_TO_TEXT",),
        chat_template=True,
    )


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": None}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}}, 16384),
        ({"max_position_embeddings": 32768, "rope_scaling": {"type": "yarn", "factor": 4.0,
          "original_max_position_embeddings": 32768}}, 131072),
        ({"max_position_embeddings": 163840, "rope_scaling": {"type": "yarn", "factor": 40,
          "original_max_position_embeddings": 4096}}, 163840),
        ({"max_position_embeddings": 40960, "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
          "original_max_position_embeddings": 32768}}, 131072),
        ({"max_position_embeddings": 131072, "rope_scaling": {"type": "longrope", "short_factor": [1.0]}}, 131072),
        ({"max_position_embeddings": 131072, "rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, 131072),
        ({"model_type": "gemma3", "text_config": {"rope_scaling": {"factor": 8.0, "rope_type": "linear"}}}, 131072),
        ({"model_type": "llava", "text_config": {"model_type": "llama", "max_position_embeddings": 4096}}, 4096),
        ({"model_type": "gpt2", "n_positions": 1024, "n_ctx": 1024}, 1024),
        ({"model_type": "chatglm", "seq_length": 131072}, 131072),
        ({"model_type": "mpt", "max_seq_len": 2048}, 2048),
        ({"model_type": "falcon"}, 2048),
        ({"model_type": "whisper", "max_target_positions": 448, "max_source_positions": 1500}, 448),
        ({"model_type": "xlm-roberta", "max_position_embeddings": 8194}, 8192),
        ({"model_type": "bert", "max_position_embeddings": 512}, 512),
        ({"model_type": "roberta", "max_position_embeddings": 1}, None),
        ({"model_type": "mamba", "hidden_size": 768}, None),
    ],
)  # fmt: skip
def test_the_context_length_follows_from_the_configuration_and_its_rope_scaling(
    config: dict[str, Any], length: int | None
) -> None:
    assert read(config_json=config).context_length == length


def test_the_context_length_comes_from_the_tokenizer_if_nothing_else_states_it() -> None:
    assert (
        read(config_json={"model_type": "x"}, tokenizer_config_json={"model_max_length": 2048}).context_length == 2048
    )
    assert read(config_json={}, tokenizer_config_json={"model_max_length": 10**30}).context_length is None


def test_a_sentence_transformers_own_limit_shortens_the_context() -> None:
    found = read(
        config_json={"model_type": "bert", "max_position_embeddings": 512},
        sentence_bert_config_json={"max_seq_length": 256},
        modules_json=[{"idx": 0, "type": "sentence_transformers.models.Transformer"}],
    )
    assert (found.context_length, found.capabilities) == (256, ("EMBEDDING",))


@pytest.mark.parametrize(
    ("quantizer", "name", "bits"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", None),
        ({"quant_method": "fbgemm_fp8"}, "fbgemm_fp8", None),
        ({"quant_method": "gptq", "bits": 4}, "gptq", 4),
        ({"quant_method": "awq", "bits": 4}, "awq", 4),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes", 4),
        ({"quant_method": "mxfp4"}, "mxfp4", None),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", None),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", None),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8}}}},
         "compressed-tensors", 8),
        ({"quant_method": "quanto", "bits": 8}, "int8", 8),
        ({"quant_method": "torchao", "bits": 4}, "int4", 4),
    ],
)  # fmt: skip
def test_the_quantization_is_read_from_the_configuration(
    quantizer: dict[str, Any], name: str, bits: int | None
) -> None:
    for config in ({"quantization_config": quantizer}, {"text_config": {"quantization_config": quantizer}}):
        found = read(config_json=config)
        assert (found.quantization, found.quantization_bits) == (name, bits)


def test_the_quantization_is_read_from_files_beside_the_configuration() -> None:
    assert read(config_json={}, hf_quant_config_json={"quantization": {"quant_algo": "NVFP4"}}).quantization == "nvfp4"
    assert read(config_json={}, quantize_config_json={"bits": 4, "group_size": 128}).quantization == "gptq"
    weights = safetensors({"a.weight": ("F8_E4M3", [8]), "a.bias": ("BF16", [2])})
    assert read(config_json={}, model_safetensors=weights).quantization == "fp8"


@pytest.mark.parametrize(
    ("config", "capabilities"),
    [
        ({"model_type": "qwen2_vl", "vision_config": {}, "video_token_id": 1, "architectures": ["QwenForX"]},
         ("IMAGE_TEXT_TO_TEXT", "VIDEO_TEXT_TO_TEXT", "TEXT_TO_TEXT")),
        ({"model_type": "llava", "vision_config": {"hidden_size": 1}, "text_config": {}},
         ("IMAGE_TEXT_TO_TEXT", "TEXT_TO_TEXT")),
        ({"model_type": "qwen2_audio", "audio_config": {}}, ("AUDIO_TEXT_TO_TEXT", "TEXT_TO_TEXT")),
        ({"model_type": "whisper"}, ("AUDIO_TO_TEXT", "AUDIO_TRANSLATION")),
        ({"model_type": "bert", "architectures": ["BertModel"]}, ("EMBEDDING",)),
        ({"model_type": "clip"}, ("EMBEDDING",)),
        ({"model_type": "mistral", "architectures": ["MistralModel"]}, ("EMBEDDING",)),
        ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, ("TEXT_TO_TEXT",)),
        ({"model_type": "chatglm", "architectures": ["ChatGLMModel"], "auto_map": {"AutoModelForCausalLM": "m.C"}},
         ("TEXT_TO_TEXT",)),
        ({"model_type": "xlm-roberta", "architectures": ["XLMRobertaForSequenceClassification"],
          "id2label": {"0": "LABEL_0"}}, ("RERANK",)),
        ({"model_type": "bert", "architectures": ["BertForSequenceClassification"]}, ()),
    ],
)  # fmt: skip
def test_capabilities_follow_from_configuration_and_classes(
    config: dict[str, Any], capabilities: tuple[str, ...]
) -> None:
    assert read(config_json=config).capabilities == capabilities


@pytest.mark.parametrize(
    ("name", "config", "expected"),
    [
        # latent attention keeps 512 + 64 values a layer: 61 x 576 x 2
        ("deepseek-v3", {}, 70272),
        ("mistral-7b", {"torch_dtype": "float32"}, 2 * 32 * 8 * 128 * 4),
        ("jamba-mini", {}, 2 * 4 * 8 * 128 * 2),
        # 12 of 48 layers attend
        ("qwen-3-next", {}, 2 * 12 * 2 * 256 * 2),
        ("mamba", {}, 0),
        ("bert", {}, None),
    ],
)
def test_the_kv_cache_size_per_token_follows_from_the_configuration(
    name: str, config: dict[str, Any], expected: int | None
) -> None:
    assert read(config_json={**config_of(name), **config}).kv_cache_bytes_per_token == expected


def test_a_pipeline_of_diffusers_is_counted_part_by_part() -> None:
    same = {"conv_in.weight": ("F16", [4])}
    found = read_files({
        "model_index.json": {"_class_name": "StableDiffusionPipeline", "_diffusers_version": "0.30.0",
                             "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"],
                             "safety_checker": [None, None], "requires_safety_checker": True},
        "unet/diffusion_pytorch_model.safetensors": safetensors(same),
        "unet/diffusion_pytorch_model.fp16.safetensors": safetensors(same),
        "vae/diffusion_pytorch_model.safetensors": safetensors(same),
        "sd-v1-5.safetensors": safetensors({"all": ("F16", [8])}),
    })  # fmt: skip
    assert (found.framework, found.framework_version, found.pipeline) == (
        "diffusers", "0.30.0", "StableDiffusionPipeline",
    )  # fmt: skip
    assert found.components == {
        "unet": Component("diffusers", "UNet2DConditionModel"), "vae": Component("diffusers", "AutoencoderKL"),
    }  # fmt: skip
    assert (found.parameters, found.dtype, found.capabilities) == (8, "float16", ("TEXT_TO_IMAGE",))


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("FluxPipeline", "TEXT_TO_IMAGE"),
        ("StableDiffusion3Pipeline", "TEXT_TO_IMAGE"),
        ("WanPipeline", "TEXT_TO_VIDEO"),
        ("WanImageToVideoPipeline", "IMAGE_TEXT_TO_VIDEO"),
        ("FluxKontextPipeline", "IMAGE_TEXT_TO_IMAGE"),
        ("QwenImageEditPipeline", "IMAGE_TEXT_TO_IMAGE"),
    ],
)
def test_the_class_of_a_pipeline_determines_its_capability(name: str, made: str) -> None:
    assert read(model_index_json={"_class_name": name}).capabilities == (made,)


def test_an_adapter_is_recognised_by_its_base_and_rank() -> None:
    weights = safetensors({"base_model.model.lora_A.weight": ("F32", [16, 4]), "lora_B.weight": ("F32", [4, 16])})
    config = {"peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 16}
    found = read(adapter_config_json=config, adapter_model_safetensors=weights)
    assert (found.adapter, found.parameters) == (Adapter("LORA", "org/base", 16), 128)


def test_pickles_are_recognised_by_name_and_never_opened() -> None:
    found = read(config_json=LLAMA, pytorch_model_bin=b"cos\nsystem\n", training_args_bin=b"x")
    assert (found.format, found.weight_bytes, found.parameters_from) == ("pytorch", 11, "estimate")


def test_configurations_in_params_json_of_mistral_and_meta_are_read() -> None:
    mixtral = {"dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32, "n_kv_heads": 8,
               "vocab_size": 32000, "moe": {"num_experts": 8, "num_experts_per_tok": 2}}  # fmt: skip
    found = read(params_json=mixtral)
    assert (found.hidden_size, found.experts, found.model_type) == (4096, 8, "mixtral")
    llama = {"dim": 4096, "ffn_dim_multiplier": 1.3, "multiple_of": 1024, "n_heads": 32, "n_kv_heads": 8,
             "n_layers": 32, "norm_eps": 1e-05, "vocab_size": 128256}  # fmt: skip
    found = read(params_json=llama)
    assert (found.layers, found.vocabulary_size, found.model_type) == (32, 128256, "llama")


@pytest.mark.parametrize(
    ("readme", "licence"),
    [
        (b"---\nlicense: apache-2.0\n---\n# Model", "apache-2.0"),
        (b"---\nlicense: other\nlicense_name: 'deepseek'\n---\n", "deepseek"),
        (b"---\nlanguage: en\n---\nlicense: mit\n", ""),
        (b"# Model\nlicense: mit\n", ""),
    ],
)
def test_the_licence_is_read_only_from_the_front_matter(readme: bytes, licence: str) -> None:
    assert read(config_json={}, README_md=readme).licence == licence


def test_custom_code_is_reported() -> None:
    assert read(config_json={"auto_map": {"AutoModel": "modeling.M"}}).custom_code
    assert not read(config_json={}).custom_code


def test_a_missing_configuration_is_named() -> None:
    with pytest.raises(MetadataMissing, match=r"config\.json"):
        read(notes_txt=b"x")


def test_metadata_becomes_fields_of_an_ome_model() -> None:
    weights = safetensors({"a.weight": ("F8_E4M3", [1000, 1000]), "a.weight_scale_inv": ("F32", [8, 8])})
    config = {**LLAMA, "quantization_config": {"quant_method": "fp8"}}
    assert ome_fields(read(config_json=config, model_safetensors=weights)) == {
        "modelType": "llama",
        "modelArchitecture": "LlamaForCausalLM",
        "modelFormat": {"name": "safetensors"},
        "modelFramework": {"name": "transformers", "version": "4.43.0"},
        "quantization": "fp8",
        "modelParameterSize": "1M",
        "modelCapabilities": ["TEXT_TO_TEXT"],
        "maxTokens": 131072,
    }


def test_metadata_of_a_pipeline_becomes_fields_of_an_ome_model() -> None:
    index = {"_class_name": "FluxPipeline", "vae": ["diffusers", "AutoencoderKL"],
             "text_encoder": ["transformers", "C"], "text_encoder_2": ["transformers", "T5EncoderModel"]}  # fmt: skip
    assert ome_fields(read(model_index_json=index))["diffusionPipeline"] == {
        "className": "FluxPipeline",
        "vae": {"library": "diffusers", "type": "AutoencoderKL"},
        "textEncoder": {"library": "transformers", "type": "C"},
        "additionalComponents": {"text_encoder_2": {"library": "transformers", "type": "T5EncoderModel"}},
    }


@pytest.mark.parametrize(
    ("parameters", "label"),
    [(7_000_000_000, "7B"), (1_710_000_000, "1.71B"), (137_022_720, "137.02M"), (671_026_419_200, "671.03B"), (7, "7")],
)
def test_parameter_counts_are_abbreviated_as_ome_does(parameters: int, label: str) -> None:
    assert size_label(parameters) == label


@pytest.mark.parametrize(
    "quantizer", [{"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, {}]
)
def test_nvfp4_weights_without_a_second_scale_count_two_per_byte(quantizer: dict[str, Any]) -> None:
    weights = safetensors({"a.weight": ("U8", [16, 8]), "a.weight_scale": ("F8_E4M3", [16, 1])})
    beside = {} if quantizer else {"hf_quant_config_json": {"quantization": {"quant_algo": "NVFP4"}}}
    assert read(config_json=quantizer, model_safetensors=weights, **beside).parameters == 16 * 16


@pytest.mark.parametrize(
    ("kind", "name", "capability"),
    [
        ("unheard_of_vl", "UnheardOfModel", "IMAGE_TEXT_TO_TEXT"),
        ("unheard_of_vl", "UnheardOfForConditionalGeneration", "IMAGE_TEXT_TO_TEXT"),
        ("", "UnheardOf", "IMAGE_TEXT_TO_TEXT"),
        ("chinese_clip", "ChineseCLIPModel", "EMBEDDING"),
        ("siglip2", "Siglip2Model", "EMBEDDING"),
    ],
)
def test_a_model_with_a_vision_part_is_multimodal_whatever_its_class(kind: str, name: str, capability: str) -> None:
    config = {"model_type": kind, "architectures": [name], "vision_config": {"hidden_size": 8}}
    assert capability in read(config_json=config).capabilities


@pytest.mark.parametrize(
    "files",
    [
        {"config_json": {"__version__": {"sentence_transformers": "2.0.0"}}},
        {"config_sentence_transformers_json": {"__version__": {}}, "modules_json": []},
        {"sentence_bert_config_json": {"max_seq_length": 256}, "pytorch_model_bin": b"x"},
    ],
)
def test_a_folder_with_only_sentence_transformers_files_is_not_a_model(files: dict[str, Any]) -> None:
    with pytest.raises(MetadataMissing):
        read(**files)
