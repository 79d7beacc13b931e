"""Computes the bytes of cached keys and values per token, over all layers."""

from collections.abc import Sequence

from shared.metadata.config.dimensions import Text

_MAX_LAYERS = 10_000
_MAX_BYTES = 2**40  # per token; dimensions that exceed this are not from a real model
_ENCODERS = ("bert", "roberta", "xlm-roberta", "xlm-roberta-xl", "eurobert", "camembert", "distilbert", "electra",
             "albert", "mpnet", "deberta-v2", "nomic_bert", "modernbert", "new", "clip_text_model",
             "siglip_text_model", "siglip2_text_model")  # fmt: skip
_STATE_SPACES = ("mamba", "falcon_mamba", "mamba2", "rwkv", "rwkv5", "rwkv6", "rwkv7")
# Layers of these types keep a state of constant size.
_LINEAR = ("linear_attention", "mamba", "mamba2", "recurrent", "conv")
_NEMOTRON = ("M", "mamba", "*", "attention", "-", "mlp", "E", "moe")


def kv_cache_bytes(text: Text, element_bytes: int) -> int | None:
    """Return the bytes of keys and values that each token adds; None for encoders and if unknown.

    Layers with a sliding window count in full, because up to the window they cache as much as others.
    """
    layers = text.config.integer("decoder_layers", "num_decoder_layers") or text.dimension("num_hidden_layers")
    if not layers or layers > _MAX_LAYERS or text.type in _ENCODERS:
        return None
    kept = layers if text.type == "deepseek_v4" else _attending(text, layers)
    if not kept:
        return kept
    each = _values_of_layer(text)
    found = kept * each * element_bytes if each else 0
    return found if 0 < found < _MAX_BYTES else None


def _values_of_layer(text: Text) -> int | None:
    """Return the number of values that a layer caches per token."""
    width, kv_heads = text.head_dim, text.kv_heads
    if text.latent:  # one vector holds the keys and values of all heads
        return (text.config.integer("kv_lora_rank") or 0) + (text.config.integer("qk_rope_head_dim") or 0)
    if text.type == "deepseek_v4":  # its keys are its values, shared by all heads
        return width
    return 2 * kv_heads * width if kv_heads and width else None


def _attending(text: Text, layers: int) -> int | None:
    """Return the number of layers that have their own keys and values; None if unknown."""
    config = text.config
    match text.type:
        case kind if kind in _STATE_SPACES:
            return 0
        case "kimi_linear":
            linear = config.inner("linear_attn_config")
            return len({*range(1, layers + 1)} & {*(linear.integers("full_attn_layers") if linear else ())})
        case "jamba":
            period, offset = config.integer("attn_layer_period") or 8, config.integer("attn_layer_offset")
            return sum(i % period == (4 if offset is None else offset) for i in range(layers))
        case "bamba":
            return len({*range(layers)} & {*config.integers("attn_layer_indices")})
        case "nemotron_h":  # one letter or word per layer
            pattern = tuple(config.text("hybrid_override_pattern") or "") or config.texts("layers_block_type")
            return _count(pattern, ("*", "attention"), layers) if {*pattern} <= {*_NEMOTRON} else None
        case "minimax" | "minimax_text_01" | "minimax_m1":
            types = config.texts("layer_types") or config.integers("attn_type_list")
            return _count(types, ("full_attention", 1), layers)
        case _:
            return _attending_by_types(text, layers)


def _attending_by_types(text: Text, layers: int) -> int:
    config, types = text.config, text.config.texts("layer_types")
    if len(types) == layers and text.type != "falcon_h1":  # each layer of Falcon H1 has attention and a state space
        layers -= sum(kind in _LINEAR for kind in types)
    elif text.type in ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"):
        layers //= config.integer("full_attention_interval") or 4
    if text.type == "mllama_text_model":
        layers -= len(config.integers("cross_attention_layers"))
    if text.type == "gemma3n_text":  # its last layers share the cache of earlier ones
        layers -= config.integer("num_kv_shared_layers") or 0
    return max(layers, 0)


def _count(kinds: Sequence[object], wanted: tuple[object, ...], layers: int) -> int | None:
    return sum(kind in wanted for kind in kinds) if len(kinds) == layers else None
