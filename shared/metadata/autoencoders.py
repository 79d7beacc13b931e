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
    """Return the parameters of Wan's autoencoder, of 2.1 or of 2.2 5B; None where a dimension is not known."""
    first, latent = config.integer("base_dim"), config.integer("z_dim")
    factors, per_block = config.integers("dim_mult"), config.integer("num_res_blocks")
    timed = config.values.get("temperal_downsample")
    if not first or not latent or not factors or not per_block or per_block > MOST_LAYERS:
        return None
    if not isinstance(timed, list) or len(timed) != len(factors) - 1:
        return None
    told = config.integer("decoder_base_dim") or first
    total = _wan_encoder(config, [first * factor for factor in factors], per_block, timed)
    total += convolution(2 * latent, 2 * latent, 1) + convolution(latent, latent, 1)
    return total + _wan_decoder(config, [told * factor for factor in reversed(factors)], per_block, timed[::-1])


def _wan_encoder(config: Fields, widths: list[int], per_block: int, timed: list[object]) -> int:
    latent, last = config.integer("z_dim") or 0, widths[-1]
    first = config.integer("base_dim") or 0
    total = convolution(config.integer("in_channels") or 3, first, _CUBE)
    total += _wan_middle(last) + last + convolution(last, 2 * latent, _CUBE)
    for i, (before, width) in enumerate(zip((first, *widths), widths, strict=False)):
        total += _cubic(before, width) + (per_block - 1) * _cubic(width, width)
        if i < len(timed):
            total += convolution(width, width) + (convolution(width, width, 3) if timed[i] else 0)
    return total


def _wan_decoder(config: Fields, widths: list[int], per_block: int, timed: list[object]) -> int:
    """Return the parameters of the decoder; 2.1 halves the channels where it doubles the image, 2.2 does not."""
    latent, first, last = config.integer("z_dim") or 0, widths[0], widths[-1]
    total = convolution(latent, first, _CUBE) + _wan_middle(first)
    total += last + convolution(last, config.integer("out_channels") or 3, _CUBE)
    before, halves = first, 1 if config.flag("is_residual") else 2
    for i, width in enumerate(widths):
        total += _cubic(before, width) + per_block * _cubic(width, width)
        before = width
        if i < len(timed):
            total += convolution(width, width // halves) + (convolution(width, 2 * width, 3) if timed[i] else 0)
            before = width // halves
    return total


def _wan_middle(width: int) -> int:
    return 2 * _cubic(width, width) + width + convolution(width, 3 * width, 1) + convolution(width, width, 1)


def _cubic(inputs: int, outputs: int) -> int:
    total = inputs + convolution(inputs, outputs, _CUBE) + outputs + convolution(outputs, outputs, _CUBE)
    return total + (convolution(inputs, outputs, 1) if inputs != outputs else 0)
