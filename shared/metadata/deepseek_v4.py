"""Parameters of DeepSeek-V4's own parts: attention over a shared, compressed key and value, and hyper-connections."""

from shared.metadata.dimensions import Text

# The kinds of its layers, by the words of the two forms of its configuration.
LOCAL, SPARSE, HEAVY = "v4_local", "v4_sparse", "v4_heavy"
_BY_TYPE = {"sliding_attention": LOCAL, "compressed_sparse_attention": SPARSE, "heavily_compressed_attention": HEAVY}
_SPARSE_RATE, _HEAVY_RATE = 4, 128


def kinds_of(text: Text, layers: int) -> list[str]:
    """Return the kind of attention of each layer: by its type, else by how many tokens it keeps as one."""
    if len(types := text.config.texts("layer_types")) == layers:
        return [_BY_TYPE.get(name, name) for name in types]
    ratios = text.config.integers("compress_ratios")
    if len(ratios) < layers:
        return [""] * layers
    return [{0: LOCAL, _SPARSE_RATE: SPARSE, _HEAVY_RATE: HEAVY}.get(ratio, "") for ratio in ratios[:layers]]


def hashed_layers_of(text: Text) -> int:
    """Return how many layers choose experts by a fixed table, and so have no correction."""
    hashed = text.config.integer("num_hash_layers") or text.config.texts("mlp_layer_types").count("hash_moe")
    return min(hashed, text.dimension("num_hidden_layers") or 0)


def count_attention(text: Text, hidden: int, kind: str) -> int | None:
    """Return the parameters of attention with its compressor and of both hyper-connections of a layer."""
    config, heads, width = text.config, text.heads, text.head_dim
    asked, told, groups = (config.integer(name) for name in ("q_lora_rank", "o_lora_rank", "o_groups"))
    if not heads or not width or not asked or not told or not groups:
        return None
    total = hidden * asked + asked + asked * heads * width + hidden * width + width
    total += heads * width * told + groups * told * hidden + heads
    if kind == HEAVY:
        total += 2 * hidden * width + _HEAVY_RATE * width + width
    elif kind == SPARSE:
        indexer = _indexer(text, hidden, asked)
        if indexer is None:
            return None
        total += _overlapping(hidden, width) + indexer
    streams = config.integer("hc_mult") or 4
    mixed = (2 + streams) * streams
    return total + 2 * (mixed * streams * hidden + mixed + 3)


def count_head(text: Text, hidden: int) -> int:
    """Return the parameters that bring the streams together behind the last layer."""
    streams = text.config.integer("hc_mult") or 4
    return streams * streams * hidden + streams + 1


def _overlapping(hidden: int, width: int) -> int:
    return 4 * hidden * width + 2 * _SPARSE_RATE * width + width


def _indexer(text: Text, hidden: int, asked: int) -> int | None:
    heads, width = text.config.integer("index_n_heads"), text.config.integer("index_head_dim")
    if not heads or not width:
        return None
    return _overlapping(hidden, width) + asked * heads * width + hidden * heads
