"""Parameters of the U-Net of Stable Diffusion 1 and 2 and of XL, by its configuration."""

from shared.metadata.count import linear
from shared.metadata.fields import Fields
from shared.metadata.layers import MOST_LAYERS

_KNOWN = ("DownBlock2D", "CrossAttnDownBlock2D", "UpBlock2D", "CrossAttnUpBlock2D")
# Fields that change the layout in ways that are not counted here.
_OTHERWISE = ("class_embed_type", "num_class_embeds", "encoder_hid_dim", "encoder_hid_dim_type", "time_cond_proj_dim",
              "time_embedding_dim", "reverse_transformer_layers_per_block", "attention_type", "cross_attention_norm",
              "addition_embed_type_num_heads", "num_attention_heads")  # fmt: skip
_USUAL = {"attention_type": "default", "addition_embed_type_num_heads": 64}


def convolution(inputs: int, outputs: int, cells: int = 9) -> int:
    """Return the parameters of a convolution over so many cells."""
    return inputs * outputs * cells + outputs


def residual(inputs: int, outputs: int, times: int = 0) -> int:
    """Return the parameters of a residual block; `times` is the width of the time embedding, 0: it takes none."""
    total = 2 * inputs + convolution(inputs, outputs) + 2 * outputs + convolution(outputs, outputs)
    total += linear(times, outputs, bias=True) if times else 0
    return total + (convolution(inputs, outputs, 1) if inputs != outputs else 0)


def count_unet(config: Fields) -> int | None:
    """Return the parameters; None where the layout or a dimension is not known."""
    widths, per_block = config.integers("block_out_channels"), config.integer("layers_per_block")
    inputs, outputs = config.integer("in_channels"), config.integer("out_channels")
    downs, ups = config.texts("down_block_types"), config.texts("up_block_types")
    context, deep = config.integer("cross_attention_dim"), _depths(config, len(widths))
    usual = all(config.values.get(name) in (None, False, _USUAL.get(name)) for name in _OTHERWISE)
    if not usual or not widths or not per_block or not inputs or not outputs or not context or deep is None:
        return None
    if per_block > MOST_LAYERS or {len(downs), len(ups)} != {len(widths)} or not set(downs + ups) <= set(_KNOWN):
        return None
    first, last, times = widths[0], widths[-1], 4 * widths[0]
    total = convolution(inputs, first) + linear(first, times, bias=True) + linear(times, times, bias=True)
    total += _added(config, times)
    previous = first
    for i, width in enumerate(widths):
        total += residual(previous, width, times) + (per_block - 1) * residual(width, width, times)
        total += per_block * _transformer(width, context, deep[i]) * downs[i].startswith("Cross")
        total += convolution(width, width) * (i < len(widths) - 1)
        previous = width
    total += 2 * residual(last, last, times) + _transformer(last, context, deep[-1])
    for i, width in enumerate(reversed(widths)):
        skipped = widths[max(len(widths) - 2 - i, 0)]
        total += residual(previous + width, width, times) + (per_block - 1) * residual(2 * width, width, times)
        total += residual(width + skipped, width, times)
        total += (per_block + 1) * _transformer(width, context, deep[-1 - i]) * ups[i].startswith("Cross")
        total += convolution(width, width) * (i < len(widths) - 1)
        previous = width
    return total + 2 * first + convolution(first, outputs)


def _depths(config: Fields, blocks: int) -> tuple[int, ...] | None:
    """Return how many layers the transformers of each block have."""
    depths = config.values.get("transformer_layers_per_block")
    found = config.integers("transformer_layers_per_block") if isinstance(depths, list) else None
    if found is None:
        found = (config.integer("transformer_layers_per_block") or 1,) * blocks
    return found if len(found) == blocks else None


def _added(config: Fields, times: int) -> int:
    if config.text("addition_embed_type") != "text_time":
        return 0
    inputs = config.integer("projection_class_embeddings_input_dim") or 0
    return linear(inputs, times, bias=True) + linear(times, times, bias=True)


def _transformer(width: int, context: int, layers: int) -> int:
    attention = 3 * width * width + linear(width, width, bias=True)
    crossed = width * width + 2 * context * width + linear(width, width, bias=True)
    mlp = linear(width, 8 * width, bias=True) + linear(4 * width, width, bias=True)
    return 2 * width + 2 * linear(width, width, bias=True) + layers * (attention + crossed + mlp + 6 * width)
