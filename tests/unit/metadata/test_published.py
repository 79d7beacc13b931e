"""What published configurations say beside their counts: a case a family, with the values of its model card."""

from typing import Any

import pytest

from tests.unit.metadata.building import read
from tests.unit.metadata.configurations import CLIP_L, OTHERS, TEXTS, config, text
from tests.unit.metadata.more_configurations import MORE
from tests.unit.metadata.recent_configurations import RECENT
from tests.unit.metadata.seeing_configurations import BY_CODE, SEEING

ALL = TEXTS | OTHERS | MORE | RECENT | SEEING | BY_CODE
TEXT, SEES = ("TEXT_TO_TEXT",), ("IMAGE_TEXT_TO_TEXT", "TEXT_TO_TEXT")
FILMS = ("IMAGE_TEXT_TO_TEXT", "VIDEO_TEXT_TO_TEXT", "TEXT_TO_TEXT")
HEARS = ("IMAGE_TEXT_TO_TEXT", "AUDIO_TEXT_TO_TEXT", "TEXT_TO_TEXT")
INT4 = {"quant_method": "compressed-tensors", "format": "pack-quantized",
        "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32, "type": "int"}}}}  # fmt: skip
YARN = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
QWEN3_5 = config(
    model_type="qwen3_5_moe", video_token_id=248057, tie_word_embeddings=False,
    text_config=config(
        model_type="qwen3_5_moe_text", dtype="bfloat16", attn_output_gate=True, head_dim=256, hidden_size=2048,
        layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 10, linear_conv_kernel_dim=4,
        linear_key_head_dim=128, linear_num_key_heads=16, linear_num_value_heads=32, linear_value_head_dim=128,
        max_position_embeddings=262144, mlp_only_layers=[], moe_intermediate_size=512, mtp_num_hidden_layers=1,
        num_attention_heads=16, num_experts=256, num_experts_per_tok=8, num_hidden_layers=40, num_key_value_heads=2,
        shared_expert_intermediate_size=512, vocab_size=248320,
        rope_parameters={"rope_type": "default", "rope_theta": 10000000, "mrope_section": [11, 11, 10]},
    ),
    vision_config=config(
        model_type="qwen3_5_moe", deepstack_visual_indexes=[], depth=27, hidden_size=1152, intermediate_size=4304,
        num_position_embeddings=2304, out_hidden_size=2048, patch_size=16, spatial_merge_size=2, temporal_patch_size=2,
    ),
)  # fmt: skip
DEEPSEEK_V4_FLASH = config(
    model_type="deepseek_v4", architectures=["DeepseekV4ForCausalLM"], hidden_size=4096, num_hidden_layers=43,
    num_attention_heads=64, num_key_value_heads=1, head_dim=512, vocab_size=129280, q_lora_rank=1024,
    o_lora_rank=1024, o_groups=8, qk_rope_head_dim=64, n_routed_experts=256, n_shared_experts=1,
    num_experts_per_tok=6, moe_intermediate_size=2048, num_hash_layers=3, hc_mult=4, index_n_heads=64,
    index_head_dim=128, index_topk=512, compress_ratios=[0, 0, *[4, 128] * 20, 4, 0], sliding_window=128,
    topk_method="noaux_tc", num_nextn_predict_layers=1, max_position_embeddings=1048576, torch_dtype="bfloat16",
    tie_word_embeddings=False, expert_dtype="fp4", quantization_config=FP8,
    rope_scaling={"type": "yarn", "factor": 16, "original_max_position_embeddings": 65536},
)  # fmt: skip


def of(name: str, **more: Any) -> dict[str, Any]:
    """Return a configuration of the tables, with more fields."""
    return {**ALL[name][0], **more}


# name: configuration, (context, layers, heads, kv heads, bytes a token), what else is told
CASES: dict[str, tuple[dict[str, Any], tuple[int | None, ...], dict[str, Any]]] = {
    "llama 1": (of("Llama-2-7b", max_position_embeddings=2048, torch_dtype="float16"),
                (2048, 32, 32, 32, 2 * 32 * 32 * 128 * 2), {"dtype": "float16", "capabilities": TEXT}),
    "llama 2": (of("Llama-2-70b", max_position_embeddings=4096), (4096, 80, 64, 8, 2 * 80 * 8 * 128 * 2), {}),
    "llama 3.2 vision": (of("mllama"), (None, 40, 32, 8, 2 * 32 * 8 * 128 * 2), {"capabilities": SEES}),
    "llama 4": (of("scout"), (None, 48, 40, 8, 2 * 48 * 8 * 128 * 2), {"experts": 16, "experts_active": 1}),
    "mixtral": (of("Mixtral-8x22B-v0.1", max_position_embeddings=65536), (65536, 56, 48, 8, 2 * 56 * 8 * 128 * 2),
                {"experts": 8, "experts_active": 2}),
    "mistral 3": (of("mistral-small31"), (131072, 40, 32, 8, 2 * 40 * 8 * 128 * 2), {"capabilities": SEES}),
    "qwen 2.5 with yarn": (
        of("qwen25-72", max_position_embeddings=32768, torch_dtype="bfloat16",
           rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}),
        (131072, 80, 64, 8, 2 * 80 * 8 * 128 * 2), {"dtype": "bfloat16"}),
    "qwen 2.5 vl": (of("qwen25vl-3b", max_position_embeddings=128000, video_token_id=1,
                       rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]}),
                    (128000, 36, 16, 2, 2 * 36 * 2 * 128 * 2), {"capabilities": FILMS}),
    # 10 of 40 layers attend; the hub's 35,951,822,704 has the layer that predicts a token more, of 844,640,768
    "qwen 3.5 moe": (QWEN3_5, (262144, 40, 16, 2, 2 * 10 * 2 * 256 * 2),
                     {"parameters": 35_107_181_936, "experts": 256, "experts_active": 8, "dtype": "bfloat16",
                      "capabilities": FILMS}),
    "gemma 2": (of("gemma2-27b", max_position_embeddings=8192), (8192, 46, 32, 16, 2 * 46 * 16 * 128 * 2), {}),
    "gemma 3": (of("g3-27b"), (131072, 62, 32, 16, 2 * 62 * 16 * 128 * 2), {"capabilities": SEES}),
    "phi 3 moe": (of("phimoe", max_position_embeddings=131072), (131072, 32, 32, 8, 2 * 32 * 8 * 128 * 2),
                  {"experts": 16, "experts_active": 2}),
    "phi 4 multimodal": (of("Phi-4-multimodal"), (131072, 32, 24, 8, 2 * 32 * 8 * 128 * 2),
                         {"parameters": 5_574_460_384, "dtype": "bfloat16", "capabilities": HEARS}),
    "deepseek v3": (of("DeepSeek-V3", max_position_embeddings=163840, rope_scaling=YARN, quantization_config=FP8),
                    (163840, 61, 128, 128, 61 * (512 + 64) * 2), {"quantization": "fp8", "head_dim": 192}),
    "deepseek v4": (DEEPSEEK_V4_FLASH, (1048576, 43, 64, 1, 43 * 512 * 2),
                    {"quantization": "fp8", "dtype": "bfloat16", "experts": 256, "experts_active": 6}),
    "deepseek vl": (of("deepseek-vl-7b", torch_dtype="float16"), (16384, 30, 32, 32, 2 * 30 * 32 * 128 * 2),
                    {"capabilities": SEES, "dtype": "float16"}),
    "deepseek vl 2 tiny": (of("deepseek-vl2-tiny"), (4096, 12, 10, 10, 2 * 12 * 10 * 128 * 2),
                           {"capabilities": SEES, "experts": 64, "experts_active": 6}),
    "deepseek vl 2": (of("deepseek-vl2"), (4096, 30, 32, 32, 30 * (512 + 64) * 2),
                      {"capabilities": SEES, "experts": 72, "experts_active": 6}),
    "deepseek ocr": (of("DeepSeek-OCR"), (4096, 12, 10, 10, 2 * 12 * 10 * 128 * 2), {"capabilities": SEES}),
    "deepseek v3.2": (of("DeepSeek-V3.2", rope_scaling=YARN, quantization_config=FP8),
                      (163840, 61, 128, 128, 61 * (512 + 64) * 2), {"quantization": "fp8", "experts": 256}),
    "kimi k2 thinking": (of("Kimi-K2-Thinking", quantization_config=INT4, rope_scaling={**YARN, "factor": 64.0}),
                         (262144, 61, 64, 64, 61 * (512 + 64) * 2),
                         {"quantization": "compressed-tensors", "quantization_bits": 4, "experts": 384,
                          "experts_active": 8, "parameters_active": 32_861_500_928}),
    "kimi k2.5": (of("Kimi-K2.5", dtype="bfloat16"), (262144, 61, 64, 64, 61 * (512 + 64) * 2),
                  {"capabilities": FILMS, "experts": 384, "dtype": "bfloat16"}),
    "glm 4.1 v": (of("GLM-4.1V-9B"), (65536, 40, 32, 2, 2 * 40 * 2 * 128 * 2), {"capabilities": FILMS}),
    "glm 4.5 v": (of("GLM-4.5V"), (65536, 46, 96, 8, 2 * 46 * 8 * 128 * 2),
                  {"capabilities": FILMS, "experts": 128, "experts_active": 8}),
    "glm 4 v": (of("glm-4v-9b", torch_dtype="bfloat16"), (8192, 40, 32, 2, 2 * 40 * 2 * 128 * 2),
                {"capabilities": SEES, "dtype": "bfloat16"}),
    "glm 4.6": (of("GLM-4.6"), (202752, 92, 96, 8, 2 * 92 * 8 * 128 * 2), {"experts": 160, "experts_active": 8}),
    "qwen vl": (of("Qwen-VL", bf16=True), (8192, 32, 32, 32, 2 * 32 * 32 * 128 * 2), {"capabilities": SEES}),
    # 15 of 35 layers look at what an earlier one keeps
    "gemma 3n": (of("gemma-3n-E4B"), (32768, 35, 8, 2, 2 * 20 * 2 * 256 * 2),
                 {"capabilities": HEARS, "dtype": "bfloat16", "vocabulary_size": 262400}),
    "minimax": (of("MiniMax-Text-01"), (10240000, 80, 64, 8, 2 * 10 * 8 * 128 * 2), {"experts": 32}),
    "minimax m2": (of("MiniMax-M2", quantization_config=FP8), (196608, 62, 48, 8, 2 * 62 * 8 * 128 * 2),
                   {"quantization": "fp8", "experts": 256, "experts_active": 8}),
    "llama 4 maverick": (of("maverick", quantization_config={"quant_method": "compressed-tensors", "config_groups":
                            {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}}),
                         (None, 48, 40, 8, 2 * 48 * 8 * 128 * 2),
                         {"quantization": "compressed-tensors", "quantization_bits": 8, "experts": 128}),
    "qwen 3 next": (of("qwen3next", max_position_embeddings=262144), (262144, 48, 16, 2, 2 * 12 * 2 * 256 * 2),
                    {"experts": 512, "experts_active": 10}),
    "nemotron 3 nano": (of("Nemotron-3-Nano-30B-A3B", quantization_config={"quant_method": "modelopt",
                           "quant_algo": "NVFP4"}), (262144, 52, 32, 2, 2 * 6 * 2 * 128 * 2),
                        {"quantization": "nvfp4", "experts": 128, "experts_active": 6}),
    "phi 4 mini": (of("phi4mini", max_position_embeddings=131072, original_max_position_embeddings=4096,
                      rope_scaling={"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}),
                   (131072, 32, 24, 8, 2 * 32 * 8 * 128 * 2), {}),
    "olmo 3": (of("Olmo-3-32B"), (65536, 64, 40, 8, 2 * 64 * 8 * 128 * 2), {}),
    "exaone 4": (of("EXAONE-4.0-32B"), (131072, 64, 40, 8, 2 * 64 * 8 * 128 * 2), {}),
    "ernie 4.5": (of("ERNIE-4.5-21B-A3B"), (131072, 28, 20, 4, 2 * 28 * 4 * 128 * 2),
                  {"experts": 64, "experts_active": 6}),
    "hunyuan": (of("Hunyuan-A13B"), (32768, 32, 32, 8, 2 * 32 * 8 * 128 * 2), {"experts": 64, "experts_active": 8}),
    "seed oss": (of("Seed-OSS-36B"), (524288, 64, 80, 8, 2 * 64 * 8 * 128 * 2), {}),
    # a token's keys stand beside a state space in each layer
    "falcon h1": (of("Falcon-H1-7B"), (262144, 44, 12, 2, 2 * 44 * 2 * 128 * 2), {}),
    "jamba 1.5": (of("Jamba-1.5-Large", quantization_config={"quant_method": "fp8"}),
                  (262144, 72, 64, 8, 2 * 9 * 8 * 128 * 2), {"quantization": "fp8", "experts": 16}),
    "lfm 2": (of("LFM2-1.2B"), (128000, 16, 32, 8, 2 * 6 * 8 * 64 * 2), {}),
    "pixtral": (of("pixtral-12b"), (131072, 40, 32, 8, 2 * 40 * 8 * 128 * 2), {"capabilities": SEES}),
    "jina 3": (of("jina-embeddings-v3"), (8192, 24, 16, 16, None),
               {"capabilities": ("EMBEDDING",), "parameters": 572_310_396}),
    "colbert": (of("colbertv2"), (512, 12, 12, 12, None), {"capabilities": ("EMBEDDING",)}),
    # its audio tower is not counted, so nothing is claimed
    "voxtral": (config(model_type="voxtral", audio_config={"num_hidden_layers": 32}, text_config=text("llama", 3072,
                    30, 32, 8, 8192, 131072, head_dim=128, max_position_embeddings=131072)),
                (131072, 30, 32, 8, 2 * 30 * 8 * 128 * 2),
                {"parameters": None, "capabilities": ("AUDIO_TEXT_TO_TEXT", "TEXT_TO_TEXT")}),
    "qwen 3 omni": (config(model_type="qwen3_omni_moe", thinker_config=config(audio_config={}, video_token_id=1,
                        vision_config={"depth": 27}, text_config=text("qwen3_omni_moe_text", 2048, 48, 32, 4, 768,
                        152064, head_dim=128, num_experts=128, num_experts_per_tok=8,
                        max_position_embeddings=65536))), (65536, 48, 32, 4, 2 * 48 * 4 * 128 * 2),
                    {"parameters": None, "experts": 128, "capabilities": (*FILMS[:2], *HEARS[1:])}),
    # 7 of 27 layers keep a latent vector
    "kimi linear": (of("Kimi-Linear-48B-A3B"), (1048576, 27, 32, 32, 7 * (512 + 64) * 2), {"experts": 256}),
    "chatglm": (of("chatglm3", seq_length=8192), (8192, 28, 32, 2, 2 * 28 * 2 * 128 * 2), {}),
    "baichuan": (of("baichuan13", model_max_length=4096), (4096, 40, 40, 40, 2 * 40 * 40 * 128 * 2), {}),
    "internlm reward": (of("internlm2-1.8b", architectures=["InternLM2ForRewardModel"]),
                        (None, 24, 16, 8, 2 * 24 * 8 * 128 * 2),
                        {"capabilities": (), "parameters": 1_889_110_016 - 92544 * 2048 + 2048}),
    "falcon": (of("falcon40"), (2048, 60, 128, 8, 2 * 60 * 8 * 64 * 2), {}),
    "bloom": (of("bloom-7b1", seq_length=2048), (2048, 30, 32, 32, 2 * 30 * 32 * 128 * 2), {}),
    "gpt oss": (of("gptoss20", max_position_embeddings=131072, quantization_config={"quant_method": "mxfp4"},
                   rope_scaling={"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096}),
                (131072, 24, 64, 8, 2 * 24 * 8 * 64 * 2), {"quantization": "mxfp4", "experts_active": 4}),
    "dbrx": (of("dbrx", max_seq_len=32768), (32768, 40, 48, 8, 2 * 40 * 8 * 128 * 2), {"experts": 16}),
    # 8192 positions are what it was first trained on; 131072 is what it takes
    "command r": (of("cmdr", max_position_embeddings=8192, model_max_length=131072),
                  (131072, 40, 64, 64, 2 * 40 * 64 * 128 * 2), {}),
    "exaone": (of("exaone", max_position_embeddings=4096), (4096, 32, 32, 8, 2 * 32 * 8 * 128 * 2), {}),
    "granite": (of("granite4-h-tiny"), (None, 40, 12, 4, 2 * 4 * 4 * 128 * 2), {"experts": 64}),
    "rwkv 4": (of("rwkv", context_length=1024), (1024, 12, None, None, 0), {}),
    "rwkv 5": (of("rwkv-5-eagle-7b"), (4096, 32, None, None, 0), {}),
    "rwkv 6": (of("rwkv-6-finch-1.6b"), (None, 24, None, None, 0), {"parameters_from": "dimensions"}),
    "rwkv 7": (of("rwkv-7-2.9b", max_position_embeddings=4096), (4096, 32, None, None, 0), {}),
    "jina": (of("jina-embeddings-v2-base-en"), (8192, 12, 12, 12, None), {"capabilities": ("EMBEDDING",)}),
    "gte": (of("gte-base-en-v1.5", rope_scaling={"factor": 2.0, "type": "ntk"}), (8192, 12, 12, 12, None),
            {"parameters_from": "dimensions"}),
    "bge reranker": (of("bge-reranker-base"), (512, 12, 12, 12, None), {"capabilities": ("RERANK",)}),
    "t5": (of("t5-base"), (512, 12, 12, 12, 2 * 12 * 12 * 64 * 2), {"capabilities": TEXT}),
    # 4 layers decode
    "whisper": (of("whisper-turbo"), (448, 32, 20, 20, 2 * 4 * 20 * 64 * 2),
                {"capabilities": ("AUDIO_TO_TEXT", "AUDIO_TRANSLATION")}),
    "siglip 2": (of("siglip2-base-patch16-naflex"), (64, 12, 12, 12, None), {"capabilities": ("EMBEDDING",)}),
    # by its authors' own form, whose tower is another model, named and not stored
    "llava 1.5": (of("llava-v1.5-7b", max_position_embeddings=4096), (4096, 32, 32, 32, 2 * 32 * 32 * 128 * 2),
                  {"capabilities": SEES}),
    "llava next": (config(model_type="llava_next", text_config=text("mistral", 4096, 32, 32, 8, 14336, 32064,
                        max_position_embeddings=32768), vision_config=CLIP_L),
                   (32768, 32, 32, 8, 2 * 32 * 8 * 128 * 2), {"parameters": 7_566_747_648}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_the_model_card_says(name: str) -> None:
    values, (context, layers, heads, kv_heads, kept), more = CASES[name]
    found = read(config_json=values)
    assert (found.context_length, found.layers, found.heads, found.kv_heads) == (context, layers, heads, kv_heads)
    assert found.kv_cache_bytes_per_token == kept
    assert {field: getattr(found, field) for field in more} == more


def test_deepseek_v4_comes_to_what_its_publisher_rounds() -> None:
    # 284B parameters, 13B of them active without the two tables of 129280 x 4096
    found = read(config_json=DEEPSEEK_V4_FLASH)
    assert found.parameters is not None
    assert found.parameters_active is not None
    assert found.parameters // 10**9 == 284
    assert round((found.parameters_active - 2 * 129280 * 4096) / 10**9) == 13
    # the same by the words of the other form of its configuration
    kinds = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
    ratios = DEEPSEEK_V4_FLASH["compress_ratios"]
    assert isinstance(ratios, list)
    other = {
        **DEEPSEEK_V4_FLASH, "compress_ratios": None, "layer_types": [kinds[ratio] for ratio in ratios[:43]],
        "num_hash_layers": None, "mlp_layer_types": ["hash_moe"] * 3 + ["moe"] * 40,
    }  # fmt: skip
    assert read(config_json=other).parameters == found.parameters


def test_a_kind_of_attention_that_is_not_known_leaves_the_count_open() -> None:
    found = read(config_json={**DEEPSEEK_V4_FLASH, "compress_ratios": [2] * 43})
    assert (found.parameters, found.layers) == (None, 43)
