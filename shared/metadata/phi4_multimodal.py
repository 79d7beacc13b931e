"""Parameters of Phi-4-multimodal beside its language model: what sees, what hears, and an adapter for each."""

from shared.metadata.count import linear
from shared.metadata.dimensions import Text
from shared.metadata.fields import Fields
from shared.metadata.vision import count_tower

# Dimensions that stand in its publisher's code and not in its configuration.
_SEES = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "image_size": 448, "patch_size": 14}
_HEARS = 1024
_ADAPTERS = ("vision_lora", "speech_lora")
_LAYERS, _INNER, _KERNEL, _BANDS, _HEADS, _BUCKETS = 24, 1536, 3, 80, 16, 1000


def count_beside(config: Fields, text: Text) -> int | None:
    """Return these parameters; None where a dimension of the language model is not known."""
    told, tower = text.dimension("hidden_size"), count_tower("siglip_vision_model", Fields(config.file, _SEES))
    adapters = _count_adapters(config, text)
    if not told or tower is None or adapters is None:
        return None
    seen = _SEES["hidden_size"]
    joined = _projected(seen, told) + 2 * seen + 2 * _projected(_HEARS, told)
    return tower + joined + _count_hearing() + adapters


def _projected(width: int, told: int) -> int:
    return linear(width, told, bias=True) + linear(told, told, bias=True)


def _count_hearing() -> int:
    width = _HEARS
    square = linear(width, width, bias=True)
    forward = linear(width, 2 * _INNER, bias=True) + linear(_INNER, width, bias=True) + 2 * width
    convolved = linear(width, 2 * width, bias=True) + 2 * width + linear(_KERNEL, width, bias=True) + 2 * square
    layer = 2 * forward + 4 * square + convolved + 2 * width + 2 * 2 * width
    before = 3 * linear(9, width, bias=True) + 2 * square + linear(_BANDS // 8 * width, width, bias=True)
    return _LAYERS * layer + before + _BUCKETS * _HEADS + 2 * _BANDS


def _count_adapters(config: Fields, text: Text) -> int | None:
    hidden, layers, inner = (text.dimension(name) for name in ("hidden_size", "num_hidden_layers", "intermediate_size"))
    heads, kv_heads, width = text.heads, text.kv_heads, text.head_dim
    if not hidden or not layers or not inner or not heads or not kv_heads or not width:
        return None
    asked = (heads + 2 * kv_heads) * width
    adapted = (hidden + asked) + (heads * width + hidden) + (hidden + 2 * inner) + (inner + hidden)
    ranks = [part.integer("r") for name in _ADAPTERS if (part := config.inner(name)) is not None]
    if len(ranks) < len(_ADAPTERS):
        return None
    return layers * sum(rank or 0 for rank in ranks) * adapted
