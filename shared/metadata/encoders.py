"""Parameters of models with an encoder and a decoder, and of two towers side by side."""

from shared.metadata.count import Count, count_text, linear
from shared.metadata.dimensions import Text
from shared.metadata.families import FAMILIES
from shared.metadata.fields import Fields
from shared.metadata.vision import TOWERS, count_tower, size_of

_T5 = ("t5", "mt5", "umt5", "longt5")


def count_paired(config: Fields, architecture: str) -> Count | None:
    """Return the count of a T5, Whisper, CLIP or SigLIP; None where it is none of these."""
    kind = config.text("model_type") or ""
    found = None
    if kind in _T5:
        found = _t5(config, kind, architecture)
    elif kind == "whisper":
        found = _whisper(config)
    elif kind in ("clip", "siglip", "siglip2"):
        found = _two_towers(config, kind)
    elif kind in TOWERS and kind.endswith(("_vision_model", "intern_vit_6b")):
        found = count_tower(kind, config)
    return None if found is None else Count(found, found)


def _t5(config: Fields, kind: str, architecture: str) -> int | None:
    hidden, width, heads = config.integer("d_model"), config.integer("d_kv"), config.integer("num_heads")
    inner, layers, vocab = config.integer("d_ff"), config.integer("num_layers"), config.integer("vocab_size")
    if not hidden or not width or not heads or not inner or not layers or not vocab:
        return None
    gated = (config.text("feed_forward_proj") or "relu").startswith("gated") or kind in ("mt5", "umt5")
    mlp, attention = (3 if gated else 2) * hidden * inner, 4 * hidden * heads * width
    buckets = (config.integer("relative_attention_num_buckets") or 32) * heads
    several = layers if kind == "umt5" else 1
    encoder = layers * (attention + mlp + 2 * hidden) + several * buckets + hidden
    if "EncoderModel" in architecture:
        return vocab * hidden + encoder
    deep = config.integer("num_decoder_layers") or layers
    several = deep if kind == "umt5" else 1
    decoder = deep * (2 * attention + mlp + 3 * hidden) + several * buckets + hidden
    tied = config.flag("tie_word_embeddings", default=kind == "t5")
    head = 0 if tied or architecture.endswith("Model") else vocab * hidden
    return vocab * hidden + encoder + decoder + head


def _whisper(config: Fields) -> int | None:
    hidden, vocab = config.integer("d_model"), config.integer("vocab_size")
    layers, deep = config.integer("encoder_layers"), config.integer("decoder_layers")
    wide, wide_out = config.integer("encoder_ffn_dim"), config.integer("decoder_ffn_dim")
    if not hidden or not vocab or not layers or not deep or not wide or not wide_out:
        return None
    mels = config.integer("num_mel_bins") or 80
    attention = 4 * hidden * hidden + 3 * hidden  # the key has no bias
    encoder = linear(3 * mels, hidden, bias=True) + linear(3 * hidden, hidden, bias=True)
    encoder += (config.integer("max_source_positions") or 1500) * hidden + 2 * hidden
    encoder += layers * (attention + linear(hidden, wide, bias=True) + linear(wide, hidden, bias=True) + 4 * hidden)
    decoder = (vocab + (config.integer("max_target_positions") or 448)) * hidden + 2 * hidden
    mlp = linear(hidden, wide_out, bias=True) + linear(wide_out, hidden, bias=True)
    return encoder + decoder + deep * (2 * attention + mlp + 6 * hidden)


def _two_towers(config: Fields, kind: str) -> int | None:
    nothing = Fields(config.file, {})
    seeing, reading = config.inner("vision_config") or nothing, config.inner("text_config") or nothing
    name = f"{kind}_text_model"
    text = count_text(Text(reading, FAMILIES[name], name, known=True), head=False)
    vision = count_tower(f"{kind}_vision_model", seeing)
    width = Text(reading, FAMILIES[name], name, known=True).dimension("hidden_size")
    if text is None or vision is None or not width:
        return None
    if kind != "clip":
        return text.total + vision + linear(width, reading.integer("projection_size") or width, bias=True) + 2
    seen = size_of(TOWERS["clip_vision_model"], seeing, "hidden_size") or 0
    return text.total + vision + (seen + width) * (config.integer("projection_dim") or 512) + 1
