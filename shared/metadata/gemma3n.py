"""Parameters of Gemma 3n's own parts: several streams, embeddings of their own for each layer, and its two towers."""

from shared.metadata.dimensions import Text
from shared.metadata.fields import Fields
from shared.metadata.layers import MOST_LAYERS

# Its vision tower has one size, which configurations name and do not describe.
_TOWERS = {"mobilenetv5_300m_enc": 294_126_912}
_KERNEL, _FEWER = 9, 4  # of two convolutions before the conformer: 3 x 3, and a quarter of the frequencies is left


def count_layer(text: Text, hidden: int) -> int | None:
    """Return what a layer has beside attention, MLP and norms: streams, a shortcut of low rank, its own input."""
    streams, rank, own = _own(text)
    if not streams or not rank or not own:
        return None
    mixed = 2 * hidden + hidden * streams + streams**2 + streams**3
    return mixed + 2 * hidden * rank + hidden + 2 * hidden * own + hidden


def count_rest(text: Text, hidden: int, layers: int) -> int:
    """Return what stands before and behind the layers: tables of each layer, projections of the streams."""
    streams, _, own = _own(text)
    vocab = text.config.integer("vocab_size_per_layer_input") or 262_144
    return layers * own * (vocab + hidden) + own + 2 * (streams - 1) * hidden * hidden


def _own(text: Text) -> tuple[int, int, int]:
    names = (("altup_num_inputs", 4), ("laurel_rank", 64), ("hidden_size_per_layer_input", 256))
    streams, rank, own = (text.config.integer(name) or default for name, default in names)
    return streams, rank, own


def count_towers(config: Fields, vision: Fields) -> int | None:
    """Return the parameters of what sees and what hears; None where one is not known."""
    seeing = _TOWERS.get(vision.text("architecture") or "mobilenetv5_300m_enc")
    hearing = _count_hearing(config.inner("audio_config") or Fields(config.file, {}))
    return seeing + hearing if seeing and hearing else None


def _count_hearing(audio: Fields) -> int | None:
    """Return the parameters of a conformer over the frequencies of a sound."""
    width, layers = audio.integer("hidden_size") or 1536, audio.integer("conf_num_hidden_layers") or 12
    heads, kernel = audio.integer("conf_num_attention_heads") or 8, audio.integer("conf_conv_kernel_size") or 5
    bands = audio.integer("input_feat_size") or 128
    first, second = (*audio.integers("sscp_conv_channel_size"), 128, 32)[:2]
    if layers > MOST_LAYERS or min(first, second) < 1:
        return None
    forward = 8 * width * width + 2 * width
    attention = 5 * width * width + width // heads + 2 * width
    convolved = 3 * width * width + kernel * width + 2 * width
    before = _KERNEL * first * (1 + second) + first + second
    before += bands // _FEWER * second * width
    return before + layers * (2 * forward + attention + convolved + width)
