"""What each layer of a decoder or encoder is made of: which mixer, which MLP."""

from collections.abc import Callable, Mapping

from shared.metadata import deepseek_v4
from shared.metadata.dimensions import Text
from shared.metadata.fields import Fields

MOST_LAYERS = 10_000
_NEMOTRON = {"M": "mamba2", "mamba": "mamba2", "*": "attention", "attention": "attention", "-": "none", "mlp": "none",
             "E": "none", "moe": "none"}  # fmt: skip
_LINEAR = ("linear_attention", "mamba", "mamba2", "recurrent", "conv")


def mixers_of(text: Text, layers: int) -> list[str]:
    """Return the mixer of each layer, by the names that `mixers` counts them by; empty where it is not known."""
    if layout := _LAYOUTS.get(text.type):
        found = layout(text, layers)
        return found if len(found) == layers else [""] * layers
    config, family = text.config, text.family
    attention = "attention" if family.mixer == "mla" and not text.latent else family.mixer
    if text.type != "falcon_h1" and len(types := config.texts("layer_types")) == layers:
        return [_linear_kind(text, kind) if kind in _LINEAR else attention for kind in types]
    if text.type in ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"):
        every = config.integer("full_attention_interval") or 4
        return [attention if (i + 1) % every == 0 else "linear" for i in range(layers)]
    return [attention] * layers


def _kimi_linear(text: Text, layers: int) -> list[str]:
    linear = text.config.inner("linear_attn_config")
    full = set(linear.integers("full_attn_layers") if linear else ())
    return ["mla" if i + 1 in full else "kda" for i in range(layers)]


def _jamba(text: Text, layers: int) -> list[str]:
    period, offset = text.config.integer("attn_layer_period") or 8, text.config.integer("attn_layer_offset")
    offset = 4 if offset is None else offset
    return ["attention" if i % period == offset else "mamba" for i in range(layers)]


def _bamba(text: Text, layers: int) -> list[str]:
    chosen = set(text.config.integers("attn_layer_indices"))
    return ["attention" if i in chosen else "mamba2" for i in range(layers)]


def _nemotron(text: Text, layers: int) -> list[str]:
    del layers
    return [_NEMOTRON.get(kind, "") for kind in _pattern(text.config)]


def _minimax(text: Text, layers: int) -> list[str]:
    """Return the kinds of MiniMax's layers, by the words of the two forms of its configuration."""
    del layers
    kinds = [kind == "full_attention" for kind in text.config.texts("layer_types")]
    kinds = kinds or [kind == 1 for kind in text.config.integers("attn_type_list")]
    return ["attention" if whole else "lightning" for whole in kinds]


_LAYOUTS: Mapping[str, Callable[[Text, int], list[str]]] = {
    "kimi_linear": _kimi_linear,
    "deepseek_v4": deepseek_v4.kinds_of,
    "jamba": _jamba,
    "bamba": _bamba,
    "nemotron_h": _nemotron,
    **dict.fromkeys(("minimax", "minimax_text_01", "minimax_m1"), _minimax),
}


def _pattern(config: Fields) -> tuple[str, ...]:
    """Return the kinds of Nemotron's layers, a letter or a word each."""
    return tuple(config.text("hybrid_override_pattern") or "") or config.texts("layers_block_type")


def _linear_kind(text: Text, kind: str) -> str:
    if kind == "mamba":
        return "mamba2" if "mamba_n_heads" in text.config else "mamba"
    return "linear" if kind == "linear_attention" else kind


def moe_layers_of(text: Text, layers: int) -> list[bool]:
    """Return for each layer whether its MLP has routed experts."""
    if not text.experts:
        return [False] * layers
    config = text.config
    if text.type == "nemotron_h":
        found = [kind in ("E", "moe") for kind in _pattern(config)]
        return found if len(found) == layers else [False] * layers
    if len(types := config.texts("mlp_layer_types")) == layers:
        return [kind != "dense" for kind in types]
    if chosen := set(config.integers("moe_layers") if isinstance(config.values.get("moe_layers"), list) else ()):
        return [i in chosen for i in range(layers)]
    dense = set(config.integers("mlp_only_layers") if isinstance(config.values.get("mlp_only_layers"), list) else ())
    return [i not in dense and _is_moe(config, text.type, i) for i in range(layers)]


def _is_moe(config: Fields, kind: str, index: int) -> bool:
    if index < (config.integer("first_k_dense_replace", "moe_layer_start_index") or 0):
        return False
    if index > (config.integer("moe_layer_end_index") or MOST_LAYERS):
        return False
    if kind == "jamba":
        period, offset = config.integer("expert_layer_period") or 2, config.integer("expert_layer_offset")
        return index % period == (1 if offset is None else offset)
    if step := config.integer("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"):
        return (index + 1) % step == 0
    frequency = config.integer("moe_layer_freq") or 1
    return index % frequency == 0
