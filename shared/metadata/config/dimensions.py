"""Finds dimensions in a configuration under the names that different model families use."""

from collections.abc import Mapping
from dataclasses import dataclass

from shared.metadata.config.defaults import DEFAULTS, TEXT_OF
from shared.metadata.fields import LARGEST, Fields

NAMES: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "n_embd", "d_model", "dim", "model_dim", "n_embed"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads"),
    "num_key_value_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads"),
    "vocab_size": ("padded_vocab_size", "vocab_size"),
    "max_position_embeddings": (
        "max_position_embeddings",
        "n_positions",
        "seq_length",
        "max_seq_len",
        "max_sequence_length",
        "n_ctx",
        "context_length",
        "max_target_positions",
        "model_max_length",
        "ctx_len",
        "max_context_length",
    ),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels", "d_kv"),
    "experts": ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"),
    "experts_active": (
        "num_experts_per_tok",
        "num_experts_per_token",
        "moe_top_k",
        "moe_topk",
        "moe_k",
        "num_selected_experts",
        "top_k_experts",
    ),
}
_TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
_VISION_PARTS = ("vision_config", "vision_encoder", "visual", "vit_config")


def text_part(config: Fields) -> Fields:
    """Return the part that describes the language model, at most three levels down; by default, the whole."""
    for _ in range(3):
        inner = config.inner(*_TEXT_PARTS)
        if inner is None or not inner.values:
            return config
        config = inner
    return config


def vision_part(config: Fields) -> Fields | None:
    """Return the part that describes the vision tower."""
    for _ in range(2):
        if any(isinstance(config.values.get(name), dict) for name in _VISION_PARTS):
            return config.inner(*(n for n in _VISION_PARTS if isinstance(config.values.get(n), dict)))
        inner = config.inner("thinker_config")
        if inner is None:
            return None
        config = inner
    return None


def type_of_text(config: Fields) -> str:
    """Return the family name of the text part; empty if unknown."""
    outer = config.text("model_type") or ""
    text = text_part(config)
    own = (text.text("model_type") or "") if text is not config else ""
    return own or TEXT_OF.get(outer, outer)


def dtype_of(*parts: Fields) -> str:
    """Return the type of the weights, from the first of these parts that states it."""
    named = (part.text("torch_dtype", "dtype") for part in parts)
    return next((name.removeprefix("torch.") for name in named if name), "")


def _one_of(config: Fields, names: tuple[str, ...]) -> int | None:
    """Return the first of these fields that is a number, else the first list with the same number for every layer."""
    if (found := config.integer(*names)) is not None:
        return found
    for name in names:
        value = config.values.get(name)
        if (
            isinstance(value, list)
            and len(each := set(config.integers(name))) == 1
            and 0 <= (one := each.pop()) <= LARGEST
        ):
            return one
    return None


@dataclass(frozen=True, slots=True)
class Text:
    """The text part of a configuration, and its `model_type`."""

    config: Fields
    type: str

    def dimension(self, name: str) -> int | None:
        """Return a dimension by its common name, or the default of the type if the configuration omits it."""
        for part in (self.config, self.config.inner("attn_config", "ffn_config"), self.config.inner("ffn_config")):
            if part is not None and (found := _one_of(part, NAMES.get(name, (name,)))) is not None:
                return found
        return DEFAULTS.get(self.type, {}).get(name)

    @property
    def heads(self) -> int | None:
        """The number of attention heads."""
        return self.dimension("num_attention_heads")

    @property
    def kv_heads(self) -> int | None:
        """The number of key and value heads."""
        config, heads = self.config, self.heads
        if self.type == "chatglm" and config.flag("multi_query_attention"):
            return config.integer("multi_query_group_num")
        if self.type in ("falcon", "RefinedWebModel", "RefinedWeb"):
            if config.flag("new_decoder_architecture") or self.type == "RefinedWeb":
                return self.dimension("num_key_value_heads") or heads
            return 1 if config.flag("multi_query", default=True) else heads
        if self.type == "gpt_bigcode" and config.flag("multi_query", default=True):
            return 1
        attention = config.inner("attn_config") if self.type == "dbrx" else None
        if attention is not None:
            return attention.integer("kv_n_heads") or heads
        return self.dimension("num_key_value_heads") or heads

    @property
    def head_dim(self) -> int | None:
        """The width of a head."""
        if self.latent and (nope := self.config.integer("qk_nope_head_dim")):
            return nope + (self.config.integer("qk_rope_head_dim") or 0)
        if (own := self.dimension("head_dim")) and self.type != "mamba2":
            return own
        hidden, heads = self.dimension("hidden_size"), self.heads
        return hidden // heads if hidden and heads else None

    @property
    def latent(self) -> bool:
        """Whether keys and values are cached as one latent vector."""
        return bool(self.config.integer("kv_lora_rank")) and self.config.flag("use_mla", default=True)

    @property
    def experts(self) -> int:
        """The number of routed experts per layer; 0 for dense models."""
        found = self.dimension("experts") or 0
        return found if found > 1 else 0

    @property
    def experts_active(self) -> int:
        """The number of routed experts that a token uses."""
        return self.dimension("experts_active") or 0


def text_of(config: Fields) -> Text:
    """Return the text part of a configuration."""
    return Text(text_part(config), type_of_text(config))
