"""Diffusion pipelines whose parts do not all have headers."""

import pytest

from shared.metadata.errors import MetadataMalformed
from tests.builders.model_files import INDEX, PIPELINE, read_files, safetensors

UNET, VAE = {"unet/diffusion_pytorch_model.bin": bytes(400)}, {"vae/diffusion_pytorch_model.fp16.bin": bytes(60)}
TEXT = {"text_encoder/pytorch_model.bin": bytes(20), "text_encoder/config.json": {"torch_dtype": "float16"}}


def test_a_pipeline_without_safetensors_is_estimated_part_by_part() -> None:
    # 4 bytes a weight where nothing names a type, 2 by the file's name, 2 by the part's configuration
    found = read_files({**PIPELINE, **UNET, **VAE, **TEXT})
    assert (found.parameters, found.parameters_from) == (100 + 30 + 10, "estimate")


def test_a_safetensors_header_counts_only_for_its_own_part() -> None:
    weights = safetensors({"conv_in.weight": ("F16", [4])})
    found = read_files({**PIPELINE, **UNET, **VAE, "text_encoder/model.safetensors": weights})
    assert (found.parameters, found.parameters_from) == (100 + 30 + 4, "estimate")


def test_a_part_without_weights_leaves_the_parameter_count_unknown() -> None:
    found = read_files({**PIPELINE, **UNET, **VAE})
    assert (found.parameters, found.parameters_from) == (None, "")


def test_a_part_with_a_missing_shard_leaves_the_parameter_count_unknown() -> None:
    shard = {"text_encoder/pytorch_model-00001-of-00002.bin": bytes(20)}
    assert read_files({**PIPELINE, **UNET, **VAE, **shard}).parameters is None


def test_a_part_of_unknown_type_leaves_the_parameter_count_unknown() -> None:
    odd = {"text_encoder/config.json": {"torch_dtype": "float7"}}
    assert read_files({**PIPELINE, **UNET, **VAE, **TEXT, **odd}).parameters is None


def test_a_part_with_invalid_unicode_is_refused_and_an_invalid_key_ignored() -> None:
    with pytest.raises(MetadataMalformed, match=r"model_index\.json, field scheduler"):
        read_files({**PIPELINE, "model_index.json": {**INDEX, "scheduler": ["diffusers", "\ud800"]}})
    assert "\ud800" not in read_files({**PIPELINE, "model_index.json": {**INDEX, "\ud800": ["a", "b"]}}).components


def test_a_malformed_part_is_named() -> None:
    with pytest.raises(MetadataMalformed, match=r"text_encoder/config\.json.*torch_dtype"):
        read_files({**PIPELINE, **UNET, **VAE, **TEXT, "text_encoder/config.json": {"torch_dtype": 16}})
