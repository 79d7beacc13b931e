"""Parameters of one layer's mixer: attention in its kinds, state spaces, RWKV."""

from collections.abc import Callable
from functools import partial
from math import ceil

from shared.metadata import deepseek_v4, rwkv
from shared.metadata.dimensions import Text


def count_mixer(text: Text, hidden: int, kind: str) -> int | None:
    """Return the parameters of a mixer; None where a dimension is missing or the kind is not known."""
    counter = _COUNTERS.get(kind)
    return counter(text, hidden) if counter else None


def _attention(text: Text, hidden: int) -> int | None:
    family, config = text.family, text.config
    heads, kv_heads, width = text.heads, text.kv_heads, text.head_dim
    if not heads or not kv_heads or not width:
        return None
    queries, keys = heads * width, kv_heads * width
    asked = queries * (2 if family.output_gate else 1)
    total = hidden * (asked + 2 * keys) + queries * hidden
    total += (asked + 2 * keys) if text.flag(family.qkv_bias) else 0
    total += hidden if text.flag(family.out_bias) else 0
    total += heads if family.sinks else 0
    return total + _qk_norm(text, heads, kv_heads, width) * (not family.qk_norm_if or config.flag(family.qk_norm_if))


def _qk_norm(text: Text, heads: int, kv_heads: int, width: int) -> int:
    if text.type == "phi":
        return 4 * width
    if text.type == "stablelm":
        return (heads + kv_heads) * width
    match text.family.qk_norm:
        case "head":
            return 2 * width
        case "heads":
            return (heads + kv_heads) * width
        case _:
            return 0


def _latent(text: Text, hidden: int) -> int | None:
    config, heads = text.config, text.heads
    nope, rope = config.integer("qk_nope_head_dim"), config.integer("qk_rope_head_dim")
    latent, values = config.integer("kv_lora_rank"), config.integer("v_head_dim")
    if text.type == "minicpm3" and values is None:
        values = hidden // heads if heads else None
    if not heads or nope is None or rope is None or not latent or not values:
        return None
    rank = config.integer("q_lora_rank") or 0
    queries = heads * (nope + rope)
    total = hidden * rank + rank + rank * queries if rank else hidden * queries
    total += hidden * (latent + rope) + latent + latent * heads * (nope + values) + heads * values * hidden
    if text.flag(("attention_bias", False)):
        total += rank + latent + rope + hidden
    return total + _indexer(text, hidden, rank)


def _indexer(text: Text, hidden: int, rank: int) -> int:
    heads, width = text.config.integer("index_n_heads"), text.config.integer("index_head_dim")
    if not heads or not width:
        return 0
    return rank * heads * width + hidden * width + 2 * width + hidden * heads


def _linear(text: Text, hidden: int) -> int | None:
    """Gated delta net."""
    names = ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim")
    keys, values, key_width, value_width = (text.config.integer(f"linear_{name}") for name in names)
    kernel = text.config.integer("linear_conv_kernel_dim") or 4
    if not keys or not values or not key_width or not value_width:
        return None
    all_keys, all_values = keys * key_width, values * value_width
    convolved = 2 * all_keys + all_values
    projected = hidden * (convolved + all_values) + hidden * 2 * values
    return projected + convolved * kernel + 2 * values + value_width + all_values * hidden


def _kda(text: Text, hidden: int) -> int | None:
    """Kimi's delta attention: a gate for each channel, of low rank."""
    config = text.config.inner("linear_attn_config")
    heads, width = (config.integer("num_heads"), config.integer("head_dim")) if config else (None, None)
    if not config or not heads or not width:
        return None
    inner = heads * width
    gates = 2 * (hidden * width + width * inner) + inner + hidden * heads + heads
    convolved = 3 * inner * (config.integer("short_conv_kernel_size") or 4)
    return 4 * hidden * inner + convolved + gates + width


def _mamba(text: Text, hidden: int) -> int | None:
    config, jamba = text.config, text.type == "jamba"
    expand = config.integer("expand", "mamba_expand") or 2
    inner = config.integer("intermediate_size") if not jamba else None
    inner = inner or expand * hidden
    state = config.integer("state_size", "mamba_d_state") or 16
    kernel = config.integer("conv_kernel", "mamba_d_conv") or 4
    rank = _rank(text, hidden)
    proj_bias = config.flag("mamba_proj_bias" if jamba else "use_bias")
    conv_bias = config.flag("mamba_conv_bias" if jamba else "use_conv_bias", default=True)
    total = hidden * 2 * inner + inner * kernel + inner * (rank + 2 * state) + rank * inner + inner
    total += inner * state + inner + inner * hidden
    total += (2 * inner + hidden) * proj_bias + inner * conv_bias
    return total + (rank + 2 * state if jamba else 0)


def _rank(text: Text, hidden: int) -> int:
    name = "mamba_dt_rank" if text.type == "jamba" else "time_step_rank"
    if text.config.values.get(name) in (None, "auto"):
        return ceil(hidden / 16)
    return text.config.integer(name) or 0


def _mamba2(text: Text, hidden: int) -> int | None:
    config, own = text.config, text.type == "mamba2"
    expand = config.integer("expand", "mamba_expand") or 2
    inner = config.integer("mamba_d_ssm") or expand * hidden
    if text.type == "nemotron_h":
        inner = (config.integer("mamba_num_heads") or 0) * (config.integer("mamba_head_dim") or 0)
    state = config.integer("state_size", "mamba_d_state", "ssm_state_size") or 128
    groups = config.integer("n_groups", "mamba_n_groups") or 1
    kernel = config.integer("conv_kernel", "mamba_d_conv") or 4
    heads = config.integer("num_heads" if own else "mamba_n_heads", "mamba_num_heads")
    if not heads:
        return None
    convolved = inner + 2 * groups * state
    projected = inner + convolved + heads
    proj_bias = config.flag("use_bias" if own else "mamba_proj_bias")
    conv_bias = config.flag("use_conv_bias" if "use_conv_bias" in config else "mamba_conv_bias", default=True)
    normed = inner if text.type != "falcon_h1" or config.flag("mamba_rms_norm") else 0
    total = hidden * projected + convolved * kernel + 3 * heads + normed + inner * hidden
    return total + (projected + hidden) * proj_bias + convolved * conv_bias


def _nothing(text: Text, hidden: int) -> int:
    """Return 0: a layer that is an MLP alone."""
    del text, hidden
    return 0


def _both(text: Text, hidden: int) -> int | None:
    """Attention beside a state space."""
    attention, state_space = _attention(text, hidden), _mamba2(text, hidden)
    return attention + state_space if attention and state_space else None


def _lightning(text: Text, hidden: int) -> int | None:
    """MiniMax's linear attention: one projection in, a gate, a norm over all heads."""
    heads, width = text.heads, text.head_dim
    return 5 * hidden * heads * width + heads * width if heads and width else None


def _convolution(text: Text, hidden: int) -> int:
    """LFM2's short convolution between two gates."""
    return 4 * hidden * hidden + hidden * (text.config.integer("conv_L_cache") or 3)


_COUNTERS: dict[str, Callable[[Text, int], int | None]] = {
    "attention": _attention,
    "attention+mamba2": _both,
    "lightning": _lightning,
    "none": _nothing,
    "conv": _convolution,
    "mla": _latent,
    "linear": _linear,
    "kda": _kda,
    "mamba": _mamba,
    "mamba2": _mamba2,
    "rwkv": rwkv.count_4,
    "rwkv5": rwkv.count_5,
    "rwkv6": rwkv.count_6,
    "rwkv7": rwkv.count_7,
    **{kind: partial(deepseek_v4.count_attention, kind=kind)
       for kind in (deepseek_v4.LOCAL, deepseek_v4.SPARSE, deepseek_v4.HEAVY)},
}  # fmt: skip
