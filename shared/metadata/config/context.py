"""The context length of a model in tokens, with the scaling of rotary positions."""

from shared.metadata.config.dimensions import Text
from shared.metadata.fields import Fields

# Rotary types whose `max_position_embeddings` is already the scaled length.
_SCALED = ("llama3", "longrope", "su", "default", "mrope", "proportional")
# Families whose field is the scaled length, regardless of the rotary type.
_SCALED_FAMILIES = ("gemma3_text", "gemma3n_text", "new")
# Families that state their limit in `model_max_length`, in addition to a smaller number of positions.
_BY_LIMIT = ("cohere",)
# Encoders that number positions after the padding token.
_OFFSET = {"roberta": 2, "xlm-roberta": 2, "xlm-roberta-xl": 2, "camembert": 2, "mpnet": 2}
_MAX_TOKENIZER = 10**9  # tokenizers write 1e30 if there is no limit


def context_length(text: Text, tokenizer: Fields | None, sentence: Fields | None) -> int | None:
    """Return the context in tokens, lowered to the limit of a sentence transformer if there is one."""
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
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MAX_TOKENIZER else None
