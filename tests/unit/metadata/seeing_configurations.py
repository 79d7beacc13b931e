"""Published configurations of models that see or hear, each with its number of parameters.

The numbers are those of the published files where they are known, else of the model that the published modelling code
builds. Of those under BY_CODE only a rounded number is published, and they come to it.
"""

from typing import Any

from tests.unit.metadata.configurations import CLIP_L, TEXTS, Configuration, config, text
from tests.unit.metadata.more_configurations import MORE

ONE_LATENT = config(kv_lora_rank=512, q_lora_rank=None, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128)
NO_LATENT = config(
    kv_lora_rank=None, q_lora_rank=None, use_mla=False, qk_nope_head_dim=0, qk_rope_head_dim=0, v_head_dim=0
)
VL2_TINY = text(
    "deepseek_v2", 1280, 12, 10, 10, 6848, 129280, n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6,
    moe_intermediate_size=896, first_k_dense_replace=1, topk_method="greedy", max_position_embeddings=4096,
    **NO_LATENT,
)  # fmt: skip
SIGLIP_VL2 = config(
    layers=27, mlp_ratio=3.7362, model_name="siglip_so400m_patch14_384", model_type="vision", patch_size=14, width=1152
)
OCR_VISION = config(
    image_size=1024, mlp_ratio=3.7362, model_name="deeplip_b_l", model_type="vision",
    width={"clip-l-14-224": {"heads": 16, "image_size": 224, "layers": 24, "patch_size": 14, "width": 1024},
           "sam_vit_b": {"downsample_channels": [512, 1024], "heads": 12, "layers": 12, "width": 768}},
)  # fmt: skip
GEMMA_3N = config(
    model_type="gemma3n_text", hidden_size=2048, intermediate_size=[16384] * 35, num_hidden_layers=35,
    num_attention_heads=8, num_key_value_heads=2, head_dim=256, vocab_size=262400, vocab_size_per_layer_input=262144,
    hidden_size_per_layer_input=256, altup_num_inputs=4, laurel_rank=64, num_kv_shared_layers=15,
    layer_types=(["sliding_attention"] * 4 + ["full_attention"]) * 7, max_position_embeddings=32768,
)  # fmt: skip


def of_vl2(width: int, language: Configuration) -> Configuration:
    return config(
        model_type="deepseek_vl_v2", language_config=language, vision_config=SIGLIP_VL2,
        projector_config={"model_type": "mlp_projector", "n_embed": width},
    )  # fmt: skip


def of_vl(language: Configuration, projector: str, width: int, tower: str, params: dict[str, Any]) -> Configuration:
    return config(
        model_type="multi_modality", language_config=language, vision_config={"cls": tower, "params": params},
        aligner_config={"cls": "MlpProjector", "params": {"depth": 2, "input_dim": 1024, "n_embed": width,
                                                          "projector_type": projector}},
    )  # fmt: skip


def of_gemma_3n(language: Configuration) -> Configuration:
    return config(
        model_type="gemma3n", text_config=language, torch_dtype="bfloat16",
        vision_config=config(model_type="gemma3n_vision", architecture="mobilenetv5_300m_enc", hidden_size=2048,
                             vocab_size=128),
        audio_config=config(model_type="gemma3n_audio", hidden_size=1536, vocab_size=128, conf_num_hidden_layers=12,
                            conf_num_attention_heads=8, conf_conv_kernel_size=5, input_feat_size=128,
                            sscp_conv_channel_size=[128, 32]),
    )  # fmt: skip


def of_glm4v(kind: str, language: Configuration) -> Configuration:
    return config(
        model_type=kind, tie_word_embeddings=False, text_config=language, video_token_id=151344,
        vision_config=config(model_type=kind, hidden_size=1536, depth=24, num_heads=12,
                             intermediate_size=language["intermediate_size"], out_hidden_size=4096, image_size=336,
                             patch_size=14, spatial_merge_size=2, temporal_patch_size=2, attention_bias=False),
    )  # fmt: skip


PIXTRAL = config(
    model_type="pixtral", hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16,
    patch_size=14, image_size=1540, head_dim=64,
)  # fmt: skip
SIGLIP_SO = config(
    model_type="siglip_vision_model", hidden_size=1152, intermediate_size=4304, num_hidden_layers=27,
    num_attention_heads=16, patch_size=14, vision_use_head=False,
)  # fmt: skip
SIGLIP_980 = config(
    model_type="siglip", hidden_size=1152, image_size=980, intermediate_size=4304, num_attention_heads=16,
    num_hidden_layers=27, patch_size=14,
)  # fmt: skip
SEEING: dict[str, tuple[Configuration, int]] = {
    "DeepSeek-OCR": (config(model_type="deepseek_vl_v2", language_config=VL2_TINY, vision_config=OCR_VISION,
        projector_config=config(input_dim=2048, model_type="mlp_projector", n_embed=1280, projector_type="linear")),
        3336106240),
    "Phi-4-multimodal": (text("phi4mm", 3072, 32, 24, 8, 8192, 200064, tie_word_embeddings=True, embd_layer={},
        audio_processor={"name": "cascades"}, max_position_embeddings=131072, original_max_position_embeddings=4096,
        rope_scaling={"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}, torch_dtype="bfloat16",
        vision_lora={"r": 256}, speech_lora={"r": 320}), 5574460384),
    "GLM-4.1V-9B": (of_glm4v("glm4v", text("glm4v_text", 4096, 40, 32, 2, 13696, 151552, attention_bias=True,
        max_position_embeddings=65536, rope_scaling={"rope_type": "default", "mrope_section": [8, 12, 12]})),
        10292777472),
    "GLM-4.5V": (of_glm4v("glm4v_moe", text("glm4v_moe_text", 4096, 46, 96, 8, 10944, 151552, head_dim=128,
        attention_bias=True, n_routed_experts=128, n_shared_experts=1, num_experts_per_tok=8,
        moe_intermediate_size=1408, first_k_dense_replace=1, use_qk_norm=False, max_position_embeddings=65536)),
        107710933120),
    "Qwen-VL": ({**TEXTS["Qwen-7B"][0], "seq_length": 2048, "max_position_embeddings": 8192,
        "visual": config(heads=16, image_size=448, image_start_id=151857, layers=48, mlp_ratio=4.9231,
        output_dim=4096, patch_size=14, width=1664)}, 9656935168),
    "gemma-3n-E4B": (of_gemma_3n(GEMMA_3N), 7849978192),
    "gemma-3n-E2B": (of_gemma_3n({**GEMMA_3N, "intermediate_size": [8192] * 30, "num_hidden_layers": 30,
        "num_kv_shared_layers": 10, "layer_types": GEMMA_3N["layer_types"][:30]}), 5439438272),
    "pixtral-12b": (config(model_type="llava", projector_hidden_act="gelu", text_config=text("mistral", 5120, 40, 32,
        8, 14336, 131072, head_dim=128), vision_config={**PIXTRAL, "patch_size": 16, "image_size": 1024}),
        12682739712),
    "Idefics3-8B": (config(model_type="idefics3", scale_factor=2, text_config=text("llama", 4096, 32, 32, 8, 14336,
        128259, max_position_embeddings=131072), vision_config=config(model_type="idefics3_vision", hidden_size=1152,
        image_size=364, intermediate_size=4304, num_hidden_layers=27, patch_size=14)), 8462086384),
    "SmolVLM2-2.2B": (config(model_type="smolvlm", scale_factor=3, tie_word_embeddings=False, text_config=text(
        "llama", 2048, 24, 32, 32, 8192, 49280, head_dim=64, max_position_embeddings=8192),
        vision_config=config(model_type="smolvlm_vision", hidden_size=1152, image_size=384, intermediate_size=4304,
        num_hidden_layers=27, patch_size=14)), 2246784880),
    "granite-vision-3.3-2b": (config(model_type="llava_next", tie_word_embeddings=True, multimodal_projector_bias=True,
        vision_feature_layer=[-24, -20, -12, -1], text_config=text("granite", 2048, 40, 32, 8, 8192, 49156,
        tie_word_embeddings=True, max_position_embeddings=131072), vision_config=config(
        model_type="siglip_vision_model", hidden_size=1152, image_size=384, intermediate_size=4304,
        num_hidden_layers=27, patch_size=14)), 2975396928),
    "MiniCPM-Llama3-V-2.5": (text("minicpmv", 4096, 32, 32, 8, 14336, 128256, version=2.5, query_num=96,
        vision_config=SIGLIP_980), 8537092336),
    "MiniCPM-V-4.5": (text("minicpmv", 4096, 36, 32, 8, 12288, 151748, head_dim=128, version=4.5, query_num=64,
        vision_config=SIGLIP_980), 8695895280),
    "LLaVA-NeXT-Video-7B": (config(model_type="llava_next_video", text_config=config(model_type="llama",
        vocab_size=32064, max_position_embeddings=4096), vision_config=CLIP_L), 7063431168),
    "siglip-so400m-384": (config(model_type="siglip", text_config=config(model_type="siglip_text_model",
        hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, num_attention_heads=16), vision_config=config(
        model_type="siglip_vision_model", hidden_size=1152, image_size=384, intermediate_size=4304,
        num_hidden_layers=27, patch_size=14)), 877960498),
    "command-a-vision": (config(model_type="cohere2_vision", downsample_factor=2, alignment_intermediate_size=36864,
        text_config=text("cohere2", 12288, 64, 96, 8, 36864, 256000, head_dim=128), vision_config={**SIGLIP_SO,
        "image_size": 512, "patch_size": 16}), 111867525360),
    "aya-vision-8b": (config(model_type="aya_vision", downsample_factor=2, alignment_intermediate_size=28672,
        text_config=text("cohere2", 4096, 32, 32, 8, 14336, 256000, head_dim=128), vision_config={**SIGLIP_SO,
        "image_size": 364}), 8631842032),
    "llava-onevision-7b": (config(model_type="llava_onevision", tie_word_embeddings=False, text_config=text("qwen2",
        3584, 28, 28, 4, 18944, 152000), vision_config={**SIGLIP_SO, "image_size": 384, "num_hidden_layers": 26}),
        8029890080),
}  # fmt: skip
BY_CODE: dict[str, tuple[Configuration, int]] = {
    # 3.37B, 16.1B and 27.5B
    "deepseek-vl2-tiny": (of_vl2(1280, VL2_TINY), 3370501440),
    "deepseek-vl2-small": (of_vl2(2048, text("deepseek_v2", 2048, 27, 16, 16, 10944, 102400, n_routed_experts=64,
        n_shared_experts=2, num_experts_per_tok=6, moe_intermediate_size=1408, first_k_dense_replace=1,
        topk_method="greedy", max_position_embeddings=4096, **ONE_LATENT)), 16148349504),
    "deepseek-vl2": (of_vl2(2560, text("deepseek_v2", 2560, 30, 32, 32, 12288, 129280, n_routed_experts=72,
        n_shared_experts=2, num_experts_per_tok=6, moe_intermediate_size=1536, first_k_dense_replace=1,
        scoring_func="sigmoid", topk_method="noaux_tc", max_position_embeddings=4096, **ONE_LATENT)), 27480134248),
    # 1.98B and 7.34B
    "deepseek-vl-1.3b": (of_vl(text("llama", 2048, 24, 16, 16, 5632, 102400, max_position_embeddings=16384),
        "mlp_gelu", 2048, "CLIPVisionTower", config(image_size=384, model_name="siglip_large_patch16_384")),
        1975235584),
    "deepseek-vl-7b": (of_vl(config(model_type="llama", num_hidden_layers=30, max_position_embeddings=16384,
        vocab_size=102400), "low_high_hybrid_split_mlp_gelu", 4096, "HybridVisionTower", config(concat_type="tuple",
        high_res_cfg=config(image_size=1024, model_name="sam_b_downsample", output_dim=1024),
        low_res_cfg=config(image_size=384, model_name="siglip_large_patch16_384"))), 7343990017),
    # the language model is Kimi K2, of 1,026,408,232,448
    "Kimi-K2.5": (config(model_type="kimi_k25", text_config={**MORE["Kimi-K2"][0], "max_position_embeddings": 262144},
        vision_config=config(vt_hidden_size=1152, vt_intermediate_size=4304, vt_num_hidden_layers=27, patch_size=14,
        vt_num_attention_heads=16, init_pos_emb_height=64, init_pos_emb_width=64, merge_kernel_size=[2, 2],
        mm_hidden_size=1152, text_hidden_size=7168)), 1026879376368),
    # 13.9B
    "glm-4v-9b": ({**TEXTS["glm4"][0], "seq_length": 8192, "vision_config": config(hidden_size=1792, image_size=1120,
        intermediate_size=15360, num_heads=16, num_hidden_layers=63, num_positions=6401, patch_size=14,
        scaling_factor=8)}, 13906320896),
}  # fmt: skip
