"""Models of several parts: a language model with a vision tower and a projector, two towers, encoder and decoder."""

from collections.abc import Callable, Mapping

from shared.metadata.count import Count, count_text, linear
from shared.metadata.dimensions import Text, text_of, vision_part
from shared.metadata.fields import Fields
from shared.metadata.vision import count_tower, tower_for


def _two_layers(config: Fields, vision: Fields, seen: int, told: int) -> int:
    bias = config.flag("multimodal_projector_bias", default=True)
    del vision
    return linear(seen, told, bias=bias) + linear(told, told, bias=bias)


def _next(config: Fields, vision: Fields, seen: int, told: int) -> int:
    return _two_layers(config, vision, seen, told) + told  # and the image's end of line


def _internvl(config: Fields, vision: Fields, seen: int, told: int) -> int:
    del vision
    wide = round(seen * (1 / (config.number("downsample_ratio") or 0.5)) ** 2)
    return 2 * wide + linear(wide, told, bias=True) + linear(told, told, bias=True)


def _gemma3(config: Fields, vision: Fields, seen: int, told: int) -> int:
    del config, vision
    return seen * told + seen


def _paligemma(config: Fields, vision: Fields, seen: int, told: int) -> int:
    del config, vision
    return linear(seen, told, bias=True)


def _qwen2_vl(config: Fields, vision: Fields, seen: int, told: int) -> int:
    del config
    merged = seen * (vision.integer("spatial_merge_size") or 2) ** 2
    return 2 * seen + linear(merged, merged, bias=True) + linear(merged, told, bias=True)


def _qwen2_5_vl(config: Fields, vision: Fields, seen: int, told: int) -> int:
    return _qwen2_vl(config, vision, seen, told) - seen  # its norm has no bias


def _qwen3_vl(config: Fields, vision: Fields, seen: int, told: int) -> int:
    merged = seen * (vision.integer("spatial_merge_size") or 2) ** 2
    positions = vision.integer("num_position_embeddings")
    deep = vision.integers("deepstack_visual_indexes") if "deepstack_visual_indexes" in vision else ()
    mergers = linear(merged, merged, bias=True) + linear(merged, told, bias=True) + 2 * merged
    total = _qwen2_vl(config, vision, seen, told) + len(deep) * mergers
    return total + (2304 if positions is None else positions) * seen


def _llama4(config: Fields, vision: Fields, seen: int, told: int) -> int:
    del config, seen
    outputs = vision.integer("vision_output_dim") or 7680
    wide, projected = vision.integer("intermediate_size") or 5632, vision.integer("projector_input_dim") or 4096
    return wide * projected + projected * (vision.integer("projector_output_dim") or 4096) + outputs * told


def _mistral3(config: Fields, vision: Fields, seen: int, told: int) -> int:
    merged = seen * (config.integer("spatial_merge_size") or 2) ** 2
    bias = config.flag("multimodal_projector_bias")
    del vision
    return seen + merged * seen + linear(seen, told, bias=bias) + linear(told, told, bias=bias)


def _kimi_vl(config: Fields, vision: Fields, seen: int, told: int) -> int:
    del config, vision
    return 2 * seen + linear(4 * seen, 4 * seen, bias=True) + linear(4 * seen, told, bias=True)


def _minicpmv(config: Fields, vision: Fields, seen: int, told: int) -> int:
    """Queries that look at the patches, and a projection."""
    del vision
    attention = linear(told, 3 * told, bias=True) + linear(told, told, bias=True)
    return (config.integer("query_num") or 64) * told + seen * told + attention + 6 * told + told * told


_JOINS: Mapping[str, Callable[[Fields, Fields, int, int], int]] = {
    "llava": _two_layers,
    "llava_next": _next,
    "llava_onevision": _next,
    "internvl_chat": _internvl,
    "gemma3": _gemma3,
    "paligemma": _paligemma,
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
    "qwen3_vl": _qwen3_vl,
    "qwen3_vl_moe": _qwen3_vl,
    "qwen3_5": _qwen3_vl,
    "qwen3_5_moe": _qwen3_vl,
    "llama4": _llama4,
    "mistral3": _mistral3,
    "kimi_vl": _kimi_vl,
    "internvl": _internvl,
    "minicpmv": _minicpmv,
}


def count_seeing(config: Fields, *, head: bool) -> Count | None:
    """Return the count of a language model with a vision tower; None where a part is not known."""
    outer, vision = config.text("model_type") or "", vision_part(config)
    if outer == "mllama":
        return _mllama(config)
    if outer == "phi3_v":
        return _phi3_vision(config)
    join, text = _JOINS.get(outer), text_of(config)
    if outer == "llava" and "mm_vision_tower" in config:
        return _llava_of_its_authors(config, head=head)
    if vision is None or join is None or not text.known:
        return None
    text = _with_outer_tie(config, text)
    name = tower_for(outer, vision)
    tower, body = count_tower(name, vision), count_text(text, head=head)
    seen, told = _widths(name, vision, text)
    if tower is None or body is None or not seen or not told:
        return None
    return body + (tower + join(config, vision, seen, told))


def _widths(name: str, vision: Fields, text: Text) -> tuple[int | None, int | None]:
    told = text.dimension("hidden_size")
    if name == "qwen2_vl":
        return vision.integer("embed_dim") or 1280, told
    defaults = {"qwen2_5_vl": 1280, "clip_vision_model": 768, "siglip_vision_model": 768}
    return vision.integer("hidden_size") or defaults.get(name), told


def _with_outer_tie(config: Fields, text: Text) -> Text:
    """Let the wrapper say whether the head is the embedding, where the text part does not."""
    tie = config.values.get("tie_word_embeddings")
    if tie is None or "tie_word_embeddings" in text.config or text.config is config:
        return text
    inner = Fields(text.config.file, {**text.config.values, "tie_word_embeddings": tie}, text.config.at)
    return Text(inner, text.family, text.type, text.known)


def _llava_of_its_authors(config: Fields, *, head: bool) -> Count | None:
    """Return the language model and the projector: the tower is another model, which is named."""
    text = text_of(config)
    body, seen, told = count_text(text, head=head), config.integer("mm_hidden_size"), text.dimension("hidden_size")
    layers = {"linear": 1, "mlp2x_gelu": 2}.get(config.text("mm_projector_type") or "linear")
    if body is None or not seen or not told or not layers:
        return None
    return body + (linear(seen, told, bias=True) + (layers - 1) * linear(told, told, bias=True))


def _phi3_vision(config: Fields) -> Count | None:
    text = text_of(config)
    body, told = count_text(text), text.dimension("hidden_size")
    clip = Fields(config.file, {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                                "image_size": 336, "patch_size": 14})  # fmt: skip
    tower = count_tower("clip_vision_model", clip)
    if body is None or tower is None or not told:
        return None
    joined = linear(4096, told, bias=True) + linear(told, told, bias=True)
    return body + (tower + joined + 2 * 4096)  # separators of images and of their lines


def _mllama(config: Fields) -> Count | None:
    text, vision = text_of(config), vision_part(config)
    if vision is None:
        return None
    crossed = set(text.config.integers("cross_attention_layers"))
    body, hidden, width, vocab = (count_text(text), text.dimension("hidden_size"), text.head_dim,
                                  text.dimension("vocab_size"))  # fmt: skip
    tower = _mllama_tower(vision)
    if body is None or tower is None or not hidden or not width or not vocab:
        return None
    more = len(crossed) * (2 * width + 2) + 8 * hidden  # norms and gates of crossed layers; the image's own tokens
    joined = linear(vision.integer("vision_output_dim") or 7680, hidden, bias=True)
    return body + (tower + more + joined)


def _mllama_tower(vision: Fields) -> int | None:
    width, inner = vision.integer("hidden_size") or 1280, vision.integer("intermediate_size") or 5120
    layers, gated = vision.integer("num_hidden_layers") or 32, vision.integer("num_global_layers") or 8
    patch, image = vision.integer("patch_size") or 14, vision.integer("image_size") or 448
    tiles = vision.integer("max_num_tiles") or 4
    ratios = len(vision.values.get("supported_aspect_ratios") or [0] * 8) + 1
    if not patch:
        return None
    patches = (image // patch) ** 2 + 1
    layer = 4 * width * width + linear(width, inner, bias=True) + linear(inner, width, bias=True) + 4 * width
    total = (layers + gated) * layer + 2 * gated + 3 * patch * patch * width + width
    total += patches * width + 1 + ratios * tiles * patches * width
    return total + 2 * (ratios * tiles * width + 1) + 4 * width
