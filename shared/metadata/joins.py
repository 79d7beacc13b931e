"""Parameters of what joins a vision tower to a language model, a function a layout.

Each takes the whole configuration, the tower's, and the widths of what the tower sees and the language model is told.
"""

from collections.abc import Callable, Mapping

from shared.metadata.count import linear
from shared.metadata.fields import Fields
from shared.metadata.vision import count_resampler


def _two_layers(config: Fields, vision: Fields, seen: int, told: int) -> int:
    bias = config.flag("multimodal_projector_bias", default=True)
    del vision
    if isinstance(config.values.get("vision_feature_layer"), list):  # several layers of the tower, side by side
        seen *= len(config.integers("vision_feature_layer"))
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


def _glm4v(config: Fields, vision: Fields, seen: int, told: int) -> int:
    """A convolution that merges patches, and a gated MLP."""
    del config
    side, inner = vision.integer("spatial_merge_size") or 2, vision.integer("intermediate_size") or 13696
    return linear(seen * side * side, told, bias=True) + told * told + 2 * told + 3 * told * inner


def _glm4v_9b(config: Fields, vision: Fields, seen: int, told: int) -> int:
    """A convolution over two by two patches, a gated MLP, and an image's first and last token."""
    del vision
    inner = config.integer("ffn_hidden_size") or 13696
    return linear(4 * seen, told, bias=True) + told * told + 2 * told + 3 * told * inner + 2 * told


def _deepseek_vl2(config: Fields, vision: Fields, seen: int, told: int) -> int:
    """Patches merged two by two, an MLP, and the ends of lines and of views."""
    del vision
    projector = config.inner("projector_config") or config
    wide = round(told * (projector.number("mlp_ratio") or 1))
    merged = linear(seen * (projector.integer("downsample_ratio") or 2) ** 2, wide, bias=True)
    between = max((projector.integer("depth") or 2) - 2, 0) * linear(wide, wide, bias=True)
    return merged + between + linear(wide, told, bias=True) + 2 * told


def _gemma3n(config: Fields, vision: Fields, seen: int, told: int) -> int:
    """Tables and projections of what is seen and heard."""
    audio = config.inner("audio_config") or Fields(config.file, {})
    heard = audio.integer("hidden_size") or 1536
    tables = (vision.integer("vocab_size") or 128) * seen + (audio.integer("vocab_size") or 128) * heard
    return tables + 2 * (seen + heard) + (seen + heard) * told


def _aya_vision(config: Fields, vision: Fields, seen: int, told: int) -> int:
    return _cohere2_vision(config, vision, seen, told) + 2 * seen * (config.integer("downsample_factor") or 2) ** 2


def _cohere2_vision(config: Fields, vision: Fields, seen: int, told: int) -> int:
    """A gated layer between the merged patches and the language model."""
    del vision
    wide = config.integer("alignment_intermediate_size") or told
    merged = seen * (config.integer("downsample_factor") or 2) ** 2
    return linear(merged, wide, bias=True) + linear(wide // 2, told, bias=True)


def _idefics3(config: Fields, vision: Fields, seen: int, told: int) -> int:
    del vision
    return seen * (config.integer("scale_factor") or 2) ** 2 * told


def _minicpmv(config: Fields, vision: Fields, seen: int, told: int) -> int:
    """Queries that look at the patches, and a projection."""
    del vision
    queries = config.integer("query_num") or 64
    return count_resampler(seen, told, queries) + 2 * told + told * told


JOINS: Mapping[str, Callable[[Fields, Fields, int, int], int]] = {
    "llava": _two_layers,
    "llava_next": _next,
    "deepseek_vl": _two_layers,
    "llava_next_video": _next,
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
    "glm4v": _glm4v,
    "glm4v_moe": _glm4v,
    "chatglm": _glm4v_9b,
    "kimi_k25": _kimi_vl,
    "deepseek_vl_v2": _deepseek_vl2,
    "gemma3n": _gemma3n,
    "aya_vision": _aya_vision,
    "cohere2_vision": _cohere2_vision,
    "idefics3": _idefics3,
    "smolvlm": _idefics3,
}
