"""What each layer of a decoder or encoder is made of: which mixer, which MLP."""

from shared.metadata import deepseek_v4
from shared.metadata.dimensions import Text
from shared.metadata.fields import Fields

MOST_LAYERS = 10_000
_LINEAR = ("linear_attention", "mamba", "mamba2", "recurrent", "conv")


def mixers_of(text: Text, layers: int) -> list[str]:
    """Return the mixer of each layer: `attention`, `mla`, `linear`, `mamba`, `mamba2`, `conv`, `rwkv`."""
    config, family = text.config, text.family
    attention = "attention" if family.mixer == "mla" and not text.latent else family.mixer
    if text.type == "kimi_linear":
        linear = config.inner("linear_attn_config")
        full = linear.integers("full_attn_layers") if linear else ()
        return [attention if i + 1 in full else "kda" for i in range(layers)]
    if text.type == "deepseek_v4":
        return deepseek_v4.kinds_of(text, layers)
    if len(types := config.texts("layer_types")) == layers:
        return [_linear_kind(text, kind) if kind in _LINEAR else attention for kind in types]
    if text.type in ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"):
        every = config.integer("full_attention_interval") or 4
        return [attention if (i + 1) % every == 0 else "linear" for i in range(layers)]
    if text.type == "jamba":
        period, offset = config.integer("attn_layer_period") or 8, config.integer("attn_layer_offset")
        offset = 4 if offset is None else offset
        return [attention if i % period == offset else "mamba" for i in range(layers)]
    return [attention] * layers


def _linear_kind(text: Text, kind: str) -> str:
    if kind == "mamba":
        return "mamba2" if "mamba_n_heads" in text.config else "mamba"
    return "linear" if kind == "linear_attention" else kind


def moe_layers_of(text: Text, layers: int) -> list[bool]:
    """Return for each layer whether its MLP has routed experts."""
    if not text.experts:
        return [False] * layers
    config = text.config
    if len(types := config.texts("mlp_layer_types")) == layers:
        return [kind != "dense" for kind in types]
    if chosen := set(config.integers("moe_layers") if isinstance(config.values.get("moe_layers"), list) else ()):
        return [i in chosen for i in range(layers)]
    return [_is_moe(config, text.type, i) for i in range(layers)]


def _is_moe(config: Fields, kind: str, index: int) -> bool:
    dense = config.integers("mlp_only_layers") if isinstance(config.values.get("mlp_only_layers"), list) else ()
    if index in dense or index < (config.integer("first_k_dense_replace") or 0):
        return False
    if kind == "jamba":
        period, offset = config.integer("expert_layer_period") or 2, config.integer("expert_layer_offset")
        return index % period == (1 if offset is None else offset)
    if step := config.integer("decoder_sparse_step", "interleave_moe_layer_step"):
        return (index + 1) % step == 0
    frequency = config.integer("moe_layer_freq") or 1
    return index % frequency == 0
