"""Parameters of the autoencoders of diffusion pipelines, by their configurations."""

from shared.metadata.count import linear
from shared.metadata.fields import Fields
from shared.metadata.layers import MOST_LAYERS
from shared.metadata.unet import convolution, residual

_CUBE = 27


def count_kl(config: Fields) -> int | None:
    """Return the parameters of the autoencoder of Stable Diffusion and Flux; None where a dimension is not known."""
    widths, per_block = config.integers("block_out_channels"), config.integer("layers_per_block")
    inputs, outputs = config.integer("in_channels"), config.integer("out_channels")
    latent, blocks = (
        config.integer("latent_channels"),
        config.texts("down_block_types") + config.texts("up_block_types"),
    )
    if not widths or not per_block or not inputs or not outputs or not latent or per_block > MOST_LAYERS:
        return None
    if set(blocks) - {"DownEncoderBlock2D", "UpDecoderBlock2D"}:
        return None
    first, last = widths[0], widths[-1]
    middle = 2 * residual(last, last)
    middle += (2 * last + 4 * linear(last, last, bias=True)) * config.flag("mid_block_add_attention", default=True)
    total = convolution(inputs, first) + 2 * middle + 2 * last + convolution(last, 2 * latent)
    for before, width in zip((first, *widths), widths, strict=False):
        total += residual(before, width) + (per_block - 1) * residual(width, width)
    for before, width in zip((last, *reversed(widths)), reversed(widths), strict=False):
        total += residual(before, width) + per_block * residual(width, width)
    total += sum(convolution(width, width) for width in (*widths[:-1], *widths[1:]))
    total += convolution(2 * latent, 2 * latent, 1) * config.flag("use_quant_conv", default=True)
    total += convolution(latent, latent, 1) * config.flag("use_post_quant_conv", default=True)
    return total + convolution(latent, last) + 2 * first + convolution(first, outputs)


def count_wan_kl(config: Fields) -> int | None:
    """Return the parameters of Wan's autoencoder of 2.1; None where a dimension or the layout is not known."""
    first, latent = config.integer("base_dim"), config.integer("z_dim")
    factors, per_block = config.integers("dim_mult"), config.integer("num_res_blocks")
    timed = config.values.get("temperal_downsample")
    if not first or not latent or not factors or not per_block or per_block > MOST_LAYERS:
        return None
    if not isinstance(timed, list) or len(timed) != len(factors) - 1 or config.flag("is_residual"):
        return None
    widths = [first * factor for factor in factors]
    last = widths[-1]
    middle = 2 * _cubic(last, last) + last + convolution(last, 3 * last, 1) + convolution(last, last, 1)
    total = convolution(3, first, _CUBE) + 2 * middle + last + convolution(last, 2 * latent, _CUBE)
    for i, (before, width) in enumerate(zip((first, *widths), widths, strict=False)):
        total += _cubic(before, width) + (per_block - 1) * _cubic(width, width)
        if i < len(timed):
            total += convolution(width, width) + (convolution(width, width, 3) if timed[i] else 0)
    total += convolution(2 * latent, 2 * latent, 1) + convolution(latent, latent, 1)
    total += convolution(latent, last, _CUBE) + first + convolution(first, 3, _CUBE)
    before = last
    for i, width in enumerate(reversed(widths)):
        total += _cubic(before, width) + per_block * _cubic(width, width)
        if i < len(timed):
            total += convolution(width, width // 2) + (convolution(width, 2 * width, 3) if timed[-1 - i] else 0)
            before = width // 2
    return total


def _cubic(inputs: int, outputs: int) -> int:
    total = inputs + convolution(inputs, outputs, _CUBE) + outputs + convolution(outputs, outputs, _CUBE)
    return total + (convolution(inputs, outputs, 1) if inputs != outputs else 0)
