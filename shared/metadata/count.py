"""The exact number of parameters of a text model, from the dimensions of its configuration."""

from dataclasses import dataclass

from shared.metadata import deepseek_v4, gemma3n, mixers, rwkv
from shared.metadata.dimensions import Text
from shared.metadata.errors import MetadataOversized
from shared.metadata.fields import Fields
from shared.metadata.layers import MOST_LAYERS, mixers_of, moe_layers_of


@dataclass(frozen=True, slots=True)
class Count:
    """Parameters in all, and those that one token uses."""

    total: int
    active: int

    def __add__(self, other: "Count | int") -> "Count":
        more = Count(other, other) if isinstance(other, int) else other
        return Count(self.total + more.total, self.active + more.active)


def linear(inputs: int, outputs: int, *, bias: bool = False) -> int:
    """Return the parameters of a linear layer."""
    return inputs * outputs + (outputs if bias else 0)


def count_text(text: Text, *, head: bool = True, pooler: bool = True) -> Count | None:
    """Return the count of the text part, without its language head or pooler where told; None: cannot be known."""
    hidden, layers, vocab = (text.dimension(n) for n in ("hidden_size", "num_hidden_layers", "vocab_size"))
    if not hidden or not layers or not vocab:
        return None
    if layers > MOST_LAYERS:
        raise MetadataOversized(text.config.file, text.config.at + "num_hidden_layers", f"is {layers}, no real depth")
    kinds, sparse = mixers_of(text, layers), moe_layers_of(text, layers)
    counts: dict[tuple[str, bool], Count] = {}
    for kind in set(zip(kinds, sparse, strict=True)):
        found = _layer(text, hidden, *kind)
        if found is None:
            return None
        counts[kind] = found
    once = text.family.shared_layers
    sums = [counts[kind] for kind in list(zip(kinds, sparse, strict=True))[: 1 if once else None]]
    body = Count(sum(c.total for c in sums), sum(c.active for c in sums))
    rest = _rest(text, hidden, vocab, head=head, pooler=pooler)
    return None if rest is None else body + rest


def norm(text: Text, width: int) -> int:
    """Return the parameters of one norm."""
    if not text.family.norm_weight:
        return 0
    return width * 2 if text.flag(text.family.norm_bias) else width


def _rest(text: Text, hidden: int, vocab: int, *, head: bool, pooler: bool) -> int | None:
    config, family = text.config, text.family
    width = _embedding_width(text, hidden)
    total = vocab * width + family.final_norm * norm(text, hidden)
    total += linear(width, hidden, bias=text.type in ("electra", "albert")) if width != hidden else 0
    total += family.embedding_norm * norm(text, width)
    if family.positions is not None and config.flag("position_biased_input", default=True):
        context = text.dimension("max_position_embeddings")
        if context is None:
            return None
        total += (context + family.positions) * (hidden if text.type == "opt" else width)
    types = config.integer("type_vocab_size")
    total += width * (2 if types is None and text.type != "deberta-v2" else types or 0) * family.token_types
    total += linear(hidden, hidden, bias=True) * (family.pooler and pooler)
    total += family.relative_buckets * (text.heads or 0)
    total += _own_parts(text, hidden, vocab)
    if not family.head or not head:
        return total - family.less * hidden
    bias = vocab if text.flag(family.head_bias) else 0
    return total + bias + (0 if text.tied else vocab * width)


def _own_parts(text: Text, hidden: int, vocab: int) -> int:
    """Return what some families have beside their layers and tables."""
    config, total = text.config, 0
    if text.type == "deberta-v2" and config.flag("relative_attention"):
        buckets = config.integer("position_buckets") or text.dimension("max_position_embeddings") or 0
        total += 2 * buckets * hidden + ("layer_norm" in (config.text("norm_rel_ebd") or "")) * 2 * hidden
    if text.type == "opt":
        total += _embedding_width(text, hidden) * hidden * (_embedding_width(text, hidden) != hidden)
        total -= 0 if config.flag("do_layer_norm_before", default=True) else norm(text, hidden)
    if text.type == "deepseek_v4":
        total += deepseek_v4.count_head(text, hidden) - deepseek_v4.hashed_layers_of(text) * text.experts
    if text.type == "gemma3n_text":
        total += gemma3n.count_rest(text, hidden, text.dimension("num_hidden_layers") or 0)
    if text.type == "xlm-roberta-flash":
        total += _adapters(text, hidden, vocab)
    if "HF_ColBERT" in config.texts("architectures"):
        total += hidden * (config.integer("dim") or 128)
    if text.type == "rwkv7":
        total -= rwkv.less_of_first(text, hidden)
    if "CLIPTextModelWithProjection" in config.texts("architectures"):
        total += hidden * (config.integer("projection_dim") or 512)
    return total


def _adapters(text: Text, hidden: int, vocab: int) -> int:
    """Return the parameters of the adapters that are stored with the model, one a task, over tables and projections."""
    rank, inner = text.config.integer("lora_rank") or 0, text.dimension("intermediate_size") or 0
    projections = (hidden + 3 * hidden) + 2 * hidden + 2 * (hidden + inner)
    tables = vocab + hidden + (text.config.integer("type_vocab_size") or 0) + hidden
    layers = text.dimension("num_hidden_layers") or 0
    return len(text.config.texts("lora_adaptations")) * rank * (tables + layers * projections + 2 * hidden)


def _embedding_width(text: Text, hidden: int) -> int:
    if text.type in ("electra", "albert"):
        return text.config.integer("embedding_size") or 128
    if text.type == "opt":
        return text.config.integer("word_embed_proj_dim") or hidden
    return hidden


def _layer(text: Text, hidden: int, mixer: str, moe: bool) -> Count | None:  # noqa: FBT001 - the key of a kind
    mixed = mixers.count_mixer(text, hidden, mixer)
    own = gemma3n.count_layer(text, hidden) if text.type == "gemma3n_text" else 0
    if mixed is None or own is None:
        return None
    mixed += own
    norms = _norms(text) * norm(text, hidden)
    if not text.family.mlp or (text.type == "nemotron_h" and mixer != "none"):
        return Count(mixed + norms, mixed + norms)
    mlp = _experts(text, hidden) if moe else _dense(text, hidden)
    return None if mlp is None else mlp + mixed + norms


def _norms(text: Text) -> int:
    """Return how many norms of the hidden width a layer has."""
    if text.type in ("falcon", "RefinedWebModel", "RefinedWeb"):
        both = text.config.flag("new_decoder_architecture") or text.type == "RefinedWeb"
        if both and text.config.integer("num_ln_in_parallel_attn") == 1:
            return 1
        return 2 if both or not text.config.flag("parallel_attn", default=True) else 1
    if text.type == "stablelm" and text.config.flag("use_parallel_residual"):
        return 1
    return text.family.norms


def _intermediate(text: Text, hidden: int) -> int | None:
    found = text.dimension("intermediate_size")
    if (
        isinstance(text.config.values.get("intermediate_size"), list)
        and len(set(text.config.integers("intermediate_size"))) > 1
    ):
        return None
    if text.type == "lfm2":
        return _rounded(text.config, found)
    if text.type == "mpt":
        return hidden * (text.config.integer("expansion_ratio") or 4)
    if text.type == "llama4_text":
        found = text.config.integer("intermediate_size_mlp")
    if text.type == "granitemoehybrid" or (text.type == "granitemoeshared" and not text.experts):
        return text.config.integer("shared_intermediate_size") or found
    if found is None and not text.family.gated:
        return text.family.intermediate_factor * hidden
    return found // 2 if found and text.family.halved_intermediate else found


def _rounded(config: Fields, width: int | None) -> int | None:
    """Return LFM2's width of an MLP: two thirds, up to a multiple, where it is not written as it is."""
    width = config.integer("block_ff_dim") or width
    if width is None or not config.flag("block_auto_adjust_ff_dim", default=True):
        return width
    multiple = config.integer("block_multiple_of") or 256
    wide = int((config.number("block_ffn_dim_multiplier") or 1) * (2 * width // 3))
    return -(-wide // multiple) * multiple


def _mlp(text: Text, hidden: int, intermediate: int, *, bias: bool) -> int:
    if not text.family.gated:
        return linear(hidden, intermediate, bias=bias) + linear(intermediate, hidden, bias=bias)
    return 2 * linear(hidden, intermediate, bias=bias) + linear(intermediate, hidden, bias=bias)


def _dense(text: Text, hidden: int) -> Count | None:
    intermediate = _intermediate(text, hidden)
    if intermediate is None:
        return None
    size = _mlp(text, hidden, intermediate, bias=text.flag(text.family.mlp_bias)) + hidden * text.family.down_bias
    size += text.family.activation
    return Count(size, size)


def _experts(text: Text, hidden: int) -> Count | None:
    config, family, experts = text.config, text.family, text.experts
    inner = config.inner("ffn_config") if text.type == "dbrx" else None
    width = text.dimension("moe_intermediate_size") or (inner.integer("ffn_hidden_size") if inner else None)
    width = width or (config.integer("intermediate_size") or text.dimension("intermediate_size"))
    if width is None:
        return None
    one = _mlp(text, hidden, width, bias=family.expert_bias)
    rest = linear(hidden, experts, bias=family.router_bias) + _shared(text, hidden, width)
    chosen = config.text("topk_method")
    if chosen == "noaux_tc" or (chosen is None and family.correction_bias):
        rest += experts
    active = min(text.experts_active or experts, experts)
    return Count(experts * one + rest, active * one + rest)


def _shared(text: Text, hidden: int, width: int) -> int:
    config = text.config
    if text.type == "llama4_text":
        return _mlp(text, hidden, width, bias=False)
    shared = config.integer("shared_expert_intermediate_size", "shared_intermediate_size",
                            "moe_shared_expert_intermediate_size")  # fmt: skip
    if shared is None:
        shared = width * (text.dimension("shared_experts") or 0)
    if not shared:
        return 0
    return _mlp(text, hidden, shared, bias=False) + (hidden if text.family.shared_gate else 0)
