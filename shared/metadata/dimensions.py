"""The dimensions of a configuration, whatever each family calls them."""

from collections.abc import Mapping
from dataclasses import dataclass

from shared.metadata.families import FAMILIES, TEXT_OF, Family, Flag
from shared.metadata.fields import LARGEST, Fields

NAMES: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "n_embd", "d_model", "dim", "model_dim", "n_embed"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads"),
    "num_key_value_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads"),
    "intermediate_size": (
        "ff_intermediate_size",
        "intermediate_size",
        "n_inner",
        "ffn_hidden_size",
        "inner_hidden_size",
        "ffn_dim",
        "d_ff",
        "hidden_dim",
        "decoder_ffn_dim",
    ),
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
    "shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "moe_intermediate_size": ("moe_intermediate_size", "expert_ffn_hidden_size"),
}
_TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
_VISION_PARTS = ("vision_config", "vision_encoder", "visual", "vit_config")


def text_part(config: Fields) -> Fields:
    """Return the part that describes the language model, at most three levels down; the whole where there is none."""
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
    """Return the family name of the text part; empty where nothing says it."""
    outer = config.text("model_type") or ""
    text = text_part(config)
    own = (text.text("model_type") or "") if text is not config else ""
    return own or TEXT_OF.get(outer, outer)


def _one_of(config: Fields, names: tuple[str, ...]) -> int | None:
    """Return the first of these that is a number, else one that is the same number for each layer."""
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
    """The text part with its family; `known` is whether the family is in the table."""

    config: Fields
    family: Family
    type: str
    known: bool

    def dimension(self, name: str) -> int | None:
        """Return a dimension by its common name; the family's default where the configuration leaves it out."""
        for part in (self.config, self.config.inner("attn_config", "ffn_config"), self.config.inner("ffn_config")):
            if part is not None and (found := _one_of(part, NAMES.get(name, (name,)))) is not None:
                return found
        return self.family.defaults.get(name)

    def flag(self, flag: Flag) -> bool:
        """Return whether the family, or the field of the configuration that it names, says so."""
        return flag if isinstance(flag, bool) else self.config.flag(flag[0], default=flag[1])

    @property
    def heads(self) -> int | None:
        """Attention heads."""
        return self.dimension("num_attention_heads")

    @property
    def kv_heads(self) -> int | None:
        """Heads of keys and values."""
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
        """Width of a head."""
        if (own := self.dimension("head_dim")) and self.type != "mamba2" and not self.latent:
            return own
        if self.latent and (nope := self.config.integer("qk_nope_head_dim")):
            return nope + (self.config.integer("qk_rope_head_dim") or 0)
        hidden, heads = self.dimension("hidden_size"), self.heads
        return hidden // heads if hidden and heads else None

    @property
    def latent(self) -> bool:
        """Whether keys and values are kept as one latent vector."""
        return self.family.mixer == "mla" and self.config.flag("use_mla", default=True)

    @property
    def experts(self) -> int:
        """Routed experts of a layer; 0 for dense models."""
        found = self.dimension("experts") or 0
        return found if found > 1 else 0

    @property
    def experts_active(self) -> int:
        """Routed experts that a token uses."""
        return self.dimension("experts_active") or self.family.defaults.get("experts_active", 0)

    @property
    def tied(self) -> bool:
        """Whether the head is the embedding."""
        return self.config.flag("tie_word_embeddings", default=self.family.tied)


def _olmo(config: Fields) -> Fields:
    """Return the configuration of OLMo's first form in the words of the others."""
    width, ratio = config.integer("d_model"), config.integer("mlp_ratio")
    wide = config.integer("mlp_hidden_size") or (width * ratio if width and ratio else None)
    vocab = config.integer("embedding_size", "vocab_size")
    tied = config.flag("weight_tying", default=True)
    changed = {"intermediate_size": wide, "vocab_size": vocab, "tie_word_embeddings": tied}
    return Fields(config.file, {**config.values, **changed}, config.at)


def text_of(config: Fields) -> Text:
    """Return the text part of a configuration."""
    name = type_of_text(config)
    if name == "chatglm" and "inner_hidden_size" in config:  # the first ChatGLM, another model of the same name
        name = "chatglm1"
    if name == "minicpmv":
        name = {2.5: "llama", 2.6: "qwen2", 4.0: "llama", 4.5: "qwen3"}.get(config.number("version") or 0, name)
    if name == "xlm-roberta" and config.text("position_embedding_type") == "rotary":  # Jina's third
        name = "xlm-roberta-flash"
    if name == "bert" and config.text("position_embedding_type") == "alibi":  # Jina's, another model of the same name
        name = "jina_bert"
    family = FAMILIES.get(name)
    if name == "hf_olmo":
        return Text(_olmo(config), family or Family(), name, family is not None)
    return Text(text_part(config), family or Family(), name, family is not None)
