"""Published configurations from `data`, one case per layout, with the values of the model card."""

from typing import Any

import pytest

from tests.builders.model_files import config_of, read

TEXT, SEES = ("TEXT_TO_TEXT",), ("IMAGE_TEXT_TO_TEXT", "TEXT_TO_TEXT")
FILMS = ("IMAGE_TEXT_TO_TEXT", "VIDEO_TEXT_TO_TEXT", "TEXT_TO_TEXT")
AUDIO = ("IMAGE_TEXT_TO_TEXT", "AUDIO_TEXT_TO_TEXT", "TEXT_TO_TEXT")

# name: (context, layers, heads, kv heads, bytes per token), other values
CASES: dict[str, tuple[tuple[int | None, ...], dict[str, Any]]] = {
    "llama-1": ((2048, 32, 32, 32, 2 * 32 * 32 * 128 * 2), {"dtype": "float16", "capabilities": TEXT}),
    "llama-2": ((4096, 80, 64, 8, 2 * 80 * 8 * 128 * 2), {}),
    "llama-3.2-vision": ((None, 40, 32, 8, 2 * 32 * 8 * 128 * 2), {"capabilities": SEES}),
    "llama-4": ((None, 48, 40, 8, 2 * 48 * 8 * 128 * 2), {"experts": 16, "experts_active": 1}),
    "mixtral": ((65536, 56, 48, 8, 2 * 56 * 8 * 128 * 2), {"experts": 8, "experts_active": 2}),
    "mistral-3": ((131072, 40, 32, 8, 2 * 40 * 8 * 128 * 2), {"capabilities": SEES}),
    "qwen-2.5-with-yarn": ((131072, 80, 64, 8, 2 * 80 * 8 * 128 * 2), {"dtype": "bfloat16"}),
    "qwen-2.5-vl": ((128000, 36, 16, 2, 2 * 36 * 2 * 128 * 2), {"capabilities": FILMS}),
    "qwen-3.5-moe": ((262144, 40, 16, 2, 2 * 10 * 2 * 256 * 2),
        {"experts": 256, "experts_active": 8, "dtype": "bfloat16", "capabilities": FILMS}),
    "gemma-2": ((8192, 46, 32, 16, 2 * 46 * 16 * 128 * 2), {}),
    "gemma-3": ((131072, 62, 32, 16, 2 * 62 * 16 * 128 * 2), {"capabilities": SEES}),
    "phi-3-moe": ((131072, 32, 32, 8, 2 * 32 * 8 * 128 * 2), {"experts": 16, "experts_active": 2}),
    "phi-4-multimodal": ((131072, 32, 24, 8, 2 * 32 * 8 * 128 * 2), {"dtype": "bfloat16", "capabilities": AUDIO}),
    "deepseek-v3": ((163840, 61, 128, 128, 61 * (512 + 64) * 2), {"quantization": "fp8", "head_dim": 192}),
    "deepseek-v4": ((1048576, 43, 64, 1, 43 * 512 * 2),
        {"quantization": "fp8", "dtype": "bfloat16", "experts": 256, "experts_active": 6}),
    "deepseek-vl": ((16384, 30, 32, 32, 2 * 30 * 32 * 128 * 2), {"capabilities": SEES, "dtype": "float16"}),
    "deepseek-vl-2-tiny": ((4096, 12, 10, 10, 2 * 12 * 10 * 128 * 2),
        {"capabilities": SEES, "experts": 64, "experts_active": 6}),
    "deepseek-vl-2": ((4096, 30, 32, 32, 30 * (512 + 64) * 2),
        {"capabilities": SEES, "experts": 72, "experts_active": 6}),
    "deepseek-ocr": ((4096, 12, 10, 10, 2 * 12 * 10 * 128 * 2), {"capabilities": SEES}),
    "deepseek-v3.2": ((163840, 61, 128, 128, 61 * (512 + 64) * 2), {"quantization": "fp8", "experts": 256}),
    "kimi-k2-thinking": ((262144, 61, 64, 64, 61 * (512 + 64) * 2),
        {"quantization": "compressed-tensors", "quantization_bits": 4, "experts": 384, "experts_active": 8}),
    "kimi-k2.5": ((262144, 61, 64, 64, 61 * (512 + 64) * 2),
        {"capabilities": FILMS, "experts": 384, "dtype": "bfloat16"}),
    "glm-4.1-v": ((65536, 40, 32, 2, 2 * 40 * 2 * 128 * 2), {"capabilities": FILMS}),
    "glm-4.5-v": ((65536, 46, 96, 8, 2 * 46 * 8 * 128 * 2),
        {"capabilities": FILMS, "experts": 128, "experts_active": 8}),
    "glm-4-v": ((8192, 40, 32, 2, 2 * 40 * 2 * 128 * 2), {"capabilities": SEES, "dtype": "bfloat16"}),
    "glm-4.6": ((202752, 92, 96, 8, 2 * 92 * 8 * 128 * 2), {"experts": 160, "experts_active": 8}),
    "qwen-vl": ((8192, 32, 32, 32, 2 * 32 * 32 * 128 * 2), {"capabilities": SEES}),
    # 15 of 35 layers use the cache of an earlier one
    "gemma-3n": ((32768, 35, 8, 2, 2 * 20 * 2 * 256 * 2),
        {"capabilities": AUDIO, "dtype": "bfloat16", "vocabulary_size": 262400}),
    "minimax": ((10240000, 80, 64, 8, 2 * 10 * 8 * 128 * 2), {"experts": 32}),
    "minimax-m2": ((196608, 62, 48, 8, 2 * 62 * 8 * 128 * 2),
        {"quantization": "fp8", "experts": 256, "experts_active": 8}),
    "llama-4-maverick": ((None, 48, 40, 8, 2 * 48 * 8 * 128 * 2),
        {"quantization": "compressed-tensors", "quantization_bits": 8, "experts": 128}),
    "qwen-3-next": ((262144, 48, 16, 2, 2 * 12 * 2 * 256 * 2), {"experts": 512, "experts_active": 10}),
    "nemotron-3-nano": ((262144, 52, 32, 2, 2 * 6 * 2 * 128 * 2),
        {"quantization": "nvfp4", "experts": 128, "experts_active": 6}),
    "phi-4-mini": ((131072, 32, 24, 8, 2 * 32 * 8 * 128 * 2), {}),
    "olmo-3": ((65536, 64, 40, 8, 2 * 64 * 8 * 128 * 2), {}),
    "exaone-4": ((131072, 64, 40, 8, 2 * 64 * 8 * 128 * 2), {}),
    "ernie-4.5": ((131072, 28, 20, 4, 2 * 28 * 4 * 128 * 2), {"experts": 64, "experts_active": 6}),
    "hunyuan": ((32768, 32, 32, 8, 2 * 32 * 8 * 128 * 2), {"experts": 64, "experts_active": 8}),
    "seed-oss": ((524288, 64, 80, 8, 2 * 64 * 8 * 128 * 2), {}),
    # each layer has a KV cache beside a state space
    "falcon-h1": ((262144, 44, 12, 2, 2 * 44 * 2 * 128 * 2), {}),
    "jamba-1.5": ((262144, 72, 64, 8, 2 * 9 * 8 * 128 * 2), {"quantization": "fp8", "experts": 16}),
    "lfm-2": ((128000, 16, 32, 8, 2 * 6 * 8 * 64 * 2), {}),
    "pixtral": ((131072, 40, 32, 8, 2 * 40 * 8 * 128 * 2), {"capabilities": SEES}),
    "jina-3": ((8192, 24, 16, 16, None), {"capabilities": ("EMBEDDING",)}),
    "colbert": ((512, 12, 12, 12, None), {"capabilities": ("EMBEDDING",)}),
    "voxtral": ((131072, 30, 32, 8, 2 * 30 * 8 * 128 * 2), {"capabilities": ("AUDIO_TEXT_TO_TEXT", "TEXT_TO_TEXT")}),
    "qwen-3-omni": ((65536, 48, 32, 4, 2 * 48 * 4 * 128 * 2),
        {"experts": 128, "capabilities": (*FILMS[:2], *AUDIO[1:])}),
    # 7 of 27 layers keep a latent vector
    "kimi-linear": ((1048576, 27, 32, 32, 7 * (512 + 64) * 2), {"experts": 256}),
    "chatglm": ((8192, 28, 32, 2, 2 * 28 * 2 * 128 * 2), {}),
    "baichuan": ((4096, 40, 40, 40, 2 * 40 * 40 * 128 * 2), {}),
    "internlm-reward": ((None, 24, 16, 8, 2 * 24 * 8 * 128 * 2), {"capabilities": ()}),
    "falcon": ((2048, 60, 128, 8, 2 * 60 * 8 * 64 * 2), {}),
    "bloom": ((2048, 30, 32, 32, 2 * 30 * 32 * 128 * 2), {}),
    "gpt-oss": ((131072, 24, 64, 8, 2 * 24 * 8 * 64 * 2), {"quantization": "mxfp4", "experts_active": 4}),
    "dbrx": ((32768, 40, 48, 8, 2 * 40 * 8 * 128 * 2), {"experts": 16}),
    # it was first trained with 8192 positions, and accepts 131072
    "command-r": ((131072, 40, 64, 64, 2 * 40 * 64 * 128 * 2), {}),
    "exaone": ((4096, 32, 32, 8, 2 * 32 * 8 * 128 * 2), {}),
    "granite": ((None, 40, 12, 4, 2 * 4 * 4 * 128 * 2), {"experts": 64}),
    "rwkv-4": ((1024, 12, None, None, 0), {}),
    "rwkv-5": ((4096, 32, None, None, 0), {}),
    "rwkv-6": ((None, 24, None, None, 0), {}),
    "rwkv-7": ((4096, 32, None, None, 0), {}),
    "jina": ((8192, 12, 12, 12, None), {"capabilities": ("EMBEDDING",)}),
    "gte": ((8192, 12, 12, 12, None), {}),
    "bge-reranker": ((512, 12, 12, 12, None), {"capabilities": ("RERANK",)}),
    "t5": ((512, 12, 12, 12, 2 * 12 * 12 * 64 * 2), {"capabilities": TEXT}),
    # only the 4 layers of the decoder count
    "whisper": ((448, 32, 20, 20, 2 * 4 * 20 * 64 * 2), {"capabilities": ("AUDIO_TO_TEXT", "AUDIO_TRANSLATION")}),
    "siglip-2": ((64, 12, 12, 12, None), {"capabilities": ("EMBEDDING",)}),
    # in its authors' own format; its vision tower is another model, which is named but not included
    "llava-1.5": ((4096, 32, 32, 32, 2 * 32 * 32 * 128 * 2), {"capabilities": SEES}),
    "llava-next": ((32768, 32, 32, 8, 2 * 32 * 8 * 128 * 2), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_published_configurations_match_their_model_cards(name: str) -> None:
    (context, layers, heads, kv_heads, kept), more = CASES[name]
    found = read(config_json=config_of(name))
    assert (found.context_length, found.layers, found.heads, found.kv_heads) == (context, layers, heads, kv_heads)
    assert found.kv_cache_bytes_per_token == kept
    assert {field: getattr(found, field) for field in more} == more


def test_an_unknown_layer_pattern_leaves_the_kv_cache_size_unknown() -> None:
    found = read(config_json={**config_of("nemotron-3-nano"), "hybrid_override_pattern": "M?*"})
    assert (found.kv_cache_bytes_per_token, found.layers) == (None, 52)


def test_implausible_dimensions_give_neither_parameters_nor_kv_cache_size() -> None:
    found = read(config_json={**config_of("llama-3.1"), "hidden_size": 2**40, "num_key_value_heads": 2**20})
    assert (found.parameters, found.kv_cache_bytes_per_token) == (None, None)
