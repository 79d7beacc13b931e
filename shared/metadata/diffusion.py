"""Parameters of the parts of a diffusion pipeline, by the configuration of each part alone."""

from collections.abc import Callable, Mapping

from shared.metadata.autoencoders import count_kl, count_wan_kl
from shared.metadata.count import linear
from shared.metadata.fields import Fields
from shared.metadata.layers import MOST_LAYERS
from shared.metadata.parameters import compute
from shared.metadata.unet import count_unet

_TIMES = 256  # how many numbers stand for a time step
# Classes of parts that have no weights.
_NO_WEIGHTS = ("Scheduler", "Tokenizer", "TokenizerFast", "Processor", "FeatureExtractor", "ImageProcessor",
               "ImageProcessorFast")  # fmt: skip


def has_weights(kind: str) -> bool:
    """Return whether a part of this class has weights."""
    return not kind.endswith(_NO_WEIGHTS)


def count_part(kind: str, config: Fields) -> int | None:
    """Return the parameters of a part of this class; None where its layout or a dimension is not known."""
    if counter := _COUNTERS.get(kind):
        return counter(config)
    if kind == "StableDiffusionSafetyChecker":
        return _safety_checker(config)
    if kind not in _ENCODERS:
        return None
    computed = compute(config, embeds=False)
    return computed.count.total if computed and computed.basis == "dimensions" else None


def _safety_checker(config: Fields) -> int | None:
    """Return CLIP's vision tower, its projection, and 17 + 3 concepts with a threshold each."""
    vision = config.inner("vision_config")
    if vision is None:
        return None
    tower = compute(Fields(config.file, {"model_type": "clip_vision_model", **vision.values}), embeds=True)
    seen, projected = vision.integer("hidden_size"), config.integer("projection_dim")
    if tower is None or not seen or not projected:
        return None
    return tower.count.total + seen * projected + (17 + 3) * (projected + 1)


def _two_layers(inputs: int, width: int) -> int:
    return linear(inputs, width, bias=True) + linear(width, width, bias=True)


def _mlp(width: int, inner: int) -> int:
    return linear(width, inner, bias=True) + linear(inner, width, bias=True)


def _dimensions(config: Fields, *names: str) -> list[int] | None:
    """Return these dimensions; None where one is missing."""
    found = [value for name in names if (value := config.integer(name)) is not None]
    return found if len(found) == len(names) else None


def _flux(config: Fields) -> int | None:
    found = _dimensions(config, "in_channels", "num_layers", "num_single_layers", "attention_head_dim",
                        "num_attention_heads", "joint_attention_dim", "pooled_projection_dim")  # fmt: skip
    if found is None:
        return None
    inputs, layers, single, head, heads, context, pooled = found
    if layers + single > MOST_LAYERS:
        return None
    width = head * heads
    square = linear(width, width, bias=True)
    double = 2 * linear(width, 6 * width, bias=True) + 8 * square + 4 * head + 2 * _mlp(width, 4 * width)
    one = linear(width, 3 * width, bias=True) + linear(width, 4 * width, bias=True) + 3 * square + 2 * head
    one += linear(5 * width, width, bias=True)
    total = linear(inputs, width, bias=True) + linear(context, width, bias=True) + _two_layers(pooled, width)
    total += _two_layers(_TIMES, width) * (2 if config.flag("guidance_embeds") else 1)
    outputs = config.integer("out_channels") or inputs
    total += linear(width, 2 * width, bias=True) + linear(width, outputs, bias=True)
    return total + layers * double + single * one


def _sd3(config: Fields) -> int | None:
    found = _dimensions(config, "in_channels", "num_layers", "attention_head_dim", "num_attention_heads",
                        "joint_attention_dim", "pooled_projection_dim", "patch_size")  # fmt: skip
    if found is None or found[1] > MOST_LAYERS or not found[1]:
        return None
    inputs, layers, head, heads, context, pooled, patch = found
    width = head * heads
    square = linear(width, width, bias=True)
    norms = 2 * head if config.text("qk_norm") else 0
    whole = 2 * linear(width, 6 * width, bias=True) + 8 * square + 2 * norms + 2 * _mlp(width, 4 * width)
    # The last layer gives nothing back to the text.
    less = linear(width, 4 * width, bias=True) + square + _mlp(width, 4 * width)
    dual = linear(width, 3 * width, bias=True) + 4 * square + norms
    total = layers * whole - less + len(set(config.integers("dual_attention_layers"))) * dual
    total += linear(inputs * patch * patch, width, bias=True) + _two_layers(_TIMES, width) + _two_layers(pooled, width)
    total += linear(context, config.integer("caption_projection_dim") or width, bias=True)
    outputs = config.integer("out_channels") or inputs
    return total + linear(width, 2 * width, bias=True) + linear(width, outputs * patch * patch, bias=True)


def _wan(config: Fields) -> int | None:
    found = _dimensions(config, "in_channels", "out_channels", "num_layers", "attention_head_dim",
                        "num_attention_heads", "text_dim", "freq_dim", "ffn_dim")  # fmt: skip
    patch = config.integers("patch_size")
    if found is None or found[2] > MOST_LAYERS or len(patch) != 3:  # noqa: PLR2004 - frames, rows, columns
        return None
    inputs, outputs, layers, head, heads, text, times, inner = found
    width, cells = head * heads, patch[0] * patch[1] * patch[2]
    attention = 4 * linear(width, width, bias=True) + 2 * width
    layer = 2 * attention + _mlp(width, inner) + 6 * width
    layer += 2 * width if config.flag("cross_attn_norm", default=True) else 0
    if added := config.integer("added_kv_proj_dim"):
        layer += 2 * linear(added, width, bias=True) + width
    total = linear(inputs * cells, width, bias=True) + _two_layers(times, width) + _two_layers(text, width)
    total += linear(width, 6 * width, bias=True) + layers * layer
    if image := config.integer("image_dim"):
        total += 2 * image + linear(image, image, bias=True) + linear(image, width, bias=True) + 2 * width
        total += (config.integer("pos_embed_seq_len") or 0) * image
    return total + 2 * width + linear(width, outputs * cells, bias=True)


_ENCODERS = ("CLIPTextModel", "CLIPTextModelWithProjection", "CLIPVisionModel", "T5EncoderModel", "UMT5EncoderModel")
_COUNTERS: Mapping[str, Callable[[Fields], int | None]] = {
    "UNet2DConditionModel": count_unet,
    "AutoencoderKL": count_kl,
    "AutoencoderKLWan": count_wan_kl,
    "FluxTransformer2DModel": _flux,
    "SD3Transformer2DModel": _sd3,
    "WanTransformer3DModel": _wan,
}
