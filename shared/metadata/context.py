"""How many tokens a model takes, with the scaling of its rotary positions; how many bytes a token keeps."""

from shared.metadata.dimensions import Text
from shared.metadata.fields import Fields
from shared.metadata.layers import MOST_LAYERS, mixers_of

# Rotary kinds whose `max_position_embeddings` is the scaled length already.
_SCALED = ("llama3", "longrope", "su", "default", "mrope", "proportional")
# Families whose field is the scaled length whatever the kind.
_SCALED_FAMILIES = ("gemma3_text", "gemma3n_text", "new")
# Families that write what they take as `model_max_length`, and a shorter number of positions beside it.
_BY_LIMIT = ("cohere",)
# Encoders that count positions from behind the padding token.
_OFFSET = {"roberta": 2, "xlm-roberta": 2, "xlm-roberta-xl": 2, "xlm-roberta-flash": 2, "camembert": 2, "mpnet": 2}
_MOST_BYTES = 2**40  # that a token keeps; dimensions that come to more are of no real model
_MOST_TOKENIZER = 10**9  # tokenizers write 1e30 where they know of no limit
_NO_CACHE = ("bert", "roberta", "xlm-roberta", "xlm-roberta-flash", "xlm-roberta-xl", "eurobert", "camembert",
             "distilbert", "electra", "albert", "mpnet", "deberta-v2", "nomic_bert", "modernbert", "new", "jina_bert",
             "clip_text_model", "siglip_text_model", "siglip2_text_model")  # fmt: skip


def context_length(text: Text, tokenizer: Fields | None, sentence: Fields | None) -> int | None:
    """Return the context in tokens; a sentence transformer's own limit where it is lower."""
    found = _by_config(text)
    if found is None and tokenizer is not None:
        found = _by_tokenizer(tokenizer)
    limit = sentence.integer("max_seq_length") if sentence else None
    return min((n for n in (found, limit) if n), default=None)


def _by_config(text: Text) -> int | None:
    longest = text.dimension("max_position_embeddings")
    if text.type in _BY_LIMIT:
        longest = text.config.integer("model_max_length") or longest
    if longest is None:
        return None
    if text.type in _OFFSET:
        return max(longest - _OFFSET[text.type], 0) or None
    rope = _rope(text.config)
    if rope is None or text.type in _SCALED_FAMILIES:
        return longest
    kind, factor = rope.text("rope_type", "type") or "default", rope.number("factor") or 1.0
    if kind in _SCALED or factor <= 1:
        return longest
    original = rope.integer("original_max_position_embeddings")
    if original:
        return max(longest, round(original * factor))
    return round(longest * factor)


def _rope(config: Fields) -> Fields | None:
    found = config.inner("rope_scaling", "rope_parameters")
    return found.inner("full_attention") or found if found else None


def _by_tokenizer(tokenizer: Fields) -> int | None:
    value = tokenizer.values.get("model_max_length")
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST_TOKENIZER else None


def kv_cache_bytes(text: Text, element_bytes: int) -> int | None:
    """Return the bytes of keys and values that one token adds; None for encoders and what is not known.

    Layers with a sliding window count whole: up to the window they keep as much.
    """
    layers = text.config.integer("decoder_layers", "num_decoder_layers") or text.dimension("num_hidden_layers")
    if not layers or layers > MOST_LAYERS or text.type in _NO_CACHE:
        return None
    kinds = mixers_of(text, layers)
    latent, rope = text.config.integer("kv_lora_rank"), text.config.integer("qk_rope_head_dim")
    if latent and "mla" in kinds:
        return kinds.count("mla") * (latent + (rope or 0)) * element_bytes
    if text.type == "deepseek_v4":  # keys and values are one
        return layers * text.head_dim * element_bytes if text.head_dim else None
    if "" in kinds:
        return None
    kept = kinds.count("attention") + kinds.count("attention+mamba2")
    if text.type == "mllama_text_model":
        kept -= len(text.config.integers("cross_attention_layers"))
    if text.type == "gemma3n_text":  # its last layers look at what an earlier one keeps
        kept -= text.config.integer("num_kv_shared_layers") or 0
    if kept <= 0:
        return 0
    heads, width = text.kv_heads, text.head_dim
    found = 2 * kept * heads * width * element_bytes if heads and width else 0
    return found if 0 < found < _MOST_BYTES else None
