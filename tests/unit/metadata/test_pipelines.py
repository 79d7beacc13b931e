"""Parts of diffusion pipelines, counted by their configurations and held against published numbers."""

from typing import Any

import pytest

from shared.metadata.diffusion import count_part
from shared.metadata.errors import MetadataMalformed
from shared.metadata.fields import Fields
from tests.unit.metadata.building import read_files, safetensors
from tests.unit.metadata.configurations import OTHERS, config
from tests.unit.metadata.more_configurations import MORE

DOWN, CROSS_DOWN, UP, CROSS_UP = "DownBlock2D", "CrossAttnDownBlock2D", "UpBlock2D", "CrossAttnUpBlock2D"
SD = config(
    in_channels=4, out_channels=4, block_out_channels=[320, 640, 1280, 1280], layers_per_block=2,
    down_block_types=[CROSS_DOWN] * 3 + [DOWN], up_block_types=[UP] + [CROSS_UP] * 3, cross_attention_dim=768,
)  # fmt: skip
SDXL = config(
    in_channels=4, out_channels=4, block_out_channels=[320, 640, 1280], layers_per_block=2,
    down_block_types=[DOWN, CROSS_DOWN, CROSS_DOWN], up_block_types=[CROSS_UP, CROSS_UP, UP],
    cross_attention_dim=2048, transformer_layers_per_block=[1, 2, 10], addition_embed_type="text_time",
    projection_class_embeddings_input_dim=2816,
)  # fmt: skip
VAE = config(
    in_channels=3, out_channels=3, block_out_channels=[128, 256, 512, 512], layers_per_block=2, latent_channels=4
)
FLUX = config(
    in_channels=64, num_layers=19, num_single_layers=38, attention_head_dim=128, num_attention_heads=24,
    joint_attention_dim=4096, pooled_projection_dim=768, guidance_embeds=True,
)  # fmt: skip
SD3 = config(
    in_channels=16, out_channels=16, attention_head_dim=64, joint_attention_dim=4096, pooled_projection_dim=2048,
    patch_size=2, num_layers=24, num_attention_heads=24, caption_projection_dim=1536,
)  # fmt: skip
WAN = config(
    in_channels=16, out_channels=16, attention_head_dim=128, text_dim=4096, freq_dim=256, patch_size=[1, 2, 2],
    cross_attn_norm=True, num_layers=30, num_attention_heads=12, ffn_dim=8960,
)  # fmt: skip
SAFETY = config(
    projection_dim=768,
    vision_config=config(
        hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, patch_size=14,
        image_size=224,
    ),
)  # fmt: skip
PARTS: dict[str, tuple[str, dict[str, Any], int]] = {
    "sd 1.5 unet": ("UNet2DConditionModel", SD, 859_520_964),
    "sd 2.1 unet": ("UNet2DConditionModel", SD | {"cross_attention_dim": 1024}, 865_910_724),
    "sdxl unet": ("UNet2DConditionModel", SDXL, 2_567_463_684),
    "sd vae": ("AutoencoderKL", VAE, 83_653_863),
    "flux vae": (
        "AutoencoderKL",
        VAE | {"latent_channels": 16, "use_quant_conv": False, "use_post_quant_conv": False},
        83_819_683,
    ),
    "sd safety checker": ("StableDiffusionSafetyChecker", SAFETY, 303_981_588),
    "sd 3 medium": ("SD3Transformer2DModel", SD3, 2_028_328_000),
    "sd 3.5 medium": (
        "SD3Transformer2DModel",
        SD3 | {"qk_norm": "rms_norm", "dual_attention_layers": list(range(13))},
        2_243_171_520,
    ),
    "sd 3.5 large": (
        "SD3Transformer2DModel",
        SD3 | config(num_layers=38, num_attention_heads=38, caption_projection_dim=2432, qk_norm="rms_norm"),
        8_056_627_520,
    ),
    "flux dev": ("FluxTransformer2DModel", FLUX, 11_901_408_320),
    "flux schnell": ("FluxTransformer2DModel", FLUX | {"guidance_embeds": False}, 11_891_178_560),
    "wan 2.1 1.3b": ("WanTransformer3DModel", WAN, 1_418_996_800),
    "wan 2.1 14b": (
        "WanTransformer3DModel",
        WAN | config(num_layers=40, num_attention_heads=40, ffn_dim=13824),
        14_288_491_584,
    ),
    "wan 2.2 5b": (
        "WanTransformer3DModel",
        WAN | config(in_channels=48, out_channels=48, num_attention_heads=24, ffn_dim=14336),
        4_999_787_712,
    ),
    "wan vae": (
        "AutoencoderKLWan",
        config(base_dim=96, z_dim=16, dim_mult=[1, 2, 4, 4], num_res_blocks=2, temperal_downsample=[False, True, True]),
        126_892_531,
    ),
    "wan 2.2 5b vae": (
        "AutoencoderKLWan",
        config(
            base_dim=160,
            decoder_base_dim=256,
            z_dim=48,
            dim_mult=[1, 2, 4, 4],
            num_res_blocks=2,
            is_residual=True,
            temperal_downsample=[False, True, True],
            in_channels=12,
            out_channels=12,
            patch_size=2,
        ),
        704_688_668,
    ),
    "sd text": ("CLIPTextModel", MORE["sd15-text"][0], 123_060_480),
    "sdxl second text": ("CLIPTextModelWithProjection", MORE["sdxl-text2"][0], 694_659_840),
    "flux second text": ("T5EncoderModel", OTHERS["t5xxl-enc"][0], 4_762_310_656),
    "wan text": ("UMT5EncoderModel", MORE["umt5-xxl-enc"][0], 5_680_910_336),
}
INDEX = {
    "_class_name": "StableDiffusionPipeline", "_diffusers_version": "0.30.0",
    "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"],
    "text_encoder": ["transformers", "CLIPTextModel"], "tokenizer": ["transformers", "CLIPTokenizer"],
    "scheduler": ["diffusers", "PNDMScheduler"], "feature_extractor": ["transformers", "CLIPImageProcessor"],
    "safety_checker": [None, None],
}  # fmt: skip
PIPELINE = {
    "model_index.json": INDEX, "unet/config.json": SD, "vae/config.json": VAE,
    "text_encoder/config.json": MORE["sd15-text"][0],
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_the_count_of_a_part_is_the_published_one(name: str) -> None:
    kind, values, published = PARTS[name]
    assert count_part(kind, Fields("config.json", values)) == published


@pytest.mark.parametrize("name", PARTS)
def test_without_dimensions_nothing_is_claimed_of_a_part(name: str) -> None:
    assert count_part(PARTS[name][0], Fields("config.json", {})) is None


def test_a_pipeline_without_safetensors_is_counted_by_its_parts() -> None:
    found = read_files({**PIPELINE, "unet/diffusion_pytorch_model.bin": b"x"})
    assert (found.parameters, found.parameters_from) == (859_520_964 + 83_653_863 + 123_060_480, "dimensions")


def test_headers_of_some_parts_do_not_stand_for_the_whole() -> None:
    weights = safetensors({"conv_in.weight": ("F16", [4])})
    found = read_files({**PIPELINE, "unet/diffusion_pytorch_model.safetensors": weights})
    assert (found.parameters, found.parameters_from) == (859_520_964 + 83_653_863 + 123_060_480, "dimensions")


def test_a_part_of_another_layout_leaves_the_count_open() -> None:
    other = {**INDEX, "unet": ["diffusers", "BrandNewModel"]}
    found = read_files({**PIPELINE, "model_index.json": other})
    assert (found.parameters, found.parameters_from) == (None, "")
    assert count_part("UNet2DConditionModel", Fields("c", SD | {"class_embed_type": "timestep"})) is None


def test_a_part_of_an_impossible_size_leaves_the_count_open() -> None:
    found = read_files({**PIPELINE, "vae/config.json": VAE | {"block_out_channels": [128, 256, 512, 10**30]}})
    assert found.parameters is None


def test_a_part_whose_name_is_no_text_is_refused() -> None:
    with pytest.raises(MetadataMalformed, match=r"model_index\.json, field scheduler"):
        read_files({**PIPELINE, "model_index.json": {**INDEX, "scheduler": ["diffusers", "\ud800"]}})
    assert "\ud800" not in read_files({**PIPELINE, "model_index.json": {**INDEX, "\ud800": ["a", "b"]}}).components


def test_a_malformed_part_is_named() -> None:
    with pytest.raises(MetadataMalformed, match=r"unet/config\.json.*layers_per_block"):
        read_files({**PIPELINE, "unet/config.json": SD | {"layers_per_block": "two"}})
