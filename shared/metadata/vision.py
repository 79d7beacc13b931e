"""Parameters of vision towers and of what joins them to a language model, with their layouts as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from shared.metadata.count import linear
from shared.metadata.fields import Fields
from shared.metadata.layers import MOST_LAYERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """A transformer over patches. `positions` is how many learned ones there are beside one a patch; None: none.

    `inner` is the field with the width of its MLP. `temporal` is how many frames a patch has; `qkv_bias` and `out_bias`
    are of attention, `bias` is of the MLP. `learned_grid` is whether there is a table of positions, interpolated to the
    image.
    """

    patch_bias: bool = False
    class_token: bool = False
    positions: int | None = 0
    pre_norm: bool = False
    post_norm: bool = False
    norm_bias: bool = True
    gated: bool = False
    qkv_bias: bool = True
    out_bias: bool = True
    bias: bool = True
    layer_scale: bool = False
    temporal: int = 1
    learned_grid: bool = False
    inner: str = "intermediate_size"
    pooling_head: Literal["", "siglip"] = ""
    defaults: Mapping[str, int] = field(default_factory=dict)


_CLIP = Tower(
    class_token=True,
    positions=1,
    pre_norm=True,
    post_norm=True,
    defaults={"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "image_size": 224,
              "patch_size": 32},
)  # fmt: skip
_SIGLIP = Tower(
    patch_bias=True,
    post_norm=True,
    pooling_head="siglip",
    defaults={"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "image_size": 224,
              "patch_size": 16},
)  # fmt: skip
_QWEN2_VL = Tower(positions=None, temporal=2, defaults={"num_hidden_layers": 32, "patch_size": 14})
_QWEN2_5_VL = Tower(
    positions=None,
    temporal=2,
    norm_bias=False,
    gated=True,
    defaults={"hidden_size": 1280, "intermediate_size": 3420, "num_hidden_layers": 32, "patch_size": 14},
)
_QWEN3_VL = Tower(
    patch_bias=True,
    positions=None,
    temporal=2,
    defaults={"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 16},
)
_GLM4V = Tower(
    patch_bias=True,
    post_norm=True,
    pre_norm=True,
    norm_bias=False,
    gated=True,
    qkv_bias=False,
    out_bias=False,
    bias=False,
    temporal=2,
    inner="out_hidden_size",
    defaults={"hidden_size": 1536, "out_hidden_size": 4096, "num_hidden_layers": 24, "image_size": 336,
              "patch_size": 14},
)  # fmt: skip
TOWERS: Mapping[str, Tower] = {
    "clip_vision_model": _CLIP,
    "siglip_vision_model": _SIGLIP,
    "siglip2_vision_model": replace(_SIGLIP, defaults={**_SIGLIP.defaults, "image_size": 256}),
    "intern_vit_6b": Tower(patch_bias=True, class_token=True, positions=1, layer_scale=True),
    "pixtral": Tower(
        positions=None, pre_norm=True, norm_bias=False, gated=True, qkv_bias=False, out_bias=False, bias=False
    ),
    "qwen2_vl": _QWEN2_VL,
    "qwen2_5_vl": _QWEN2_5_VL,
    "qwen3_vl": _QWEN3_VL,
    "qwen3_vl_moe": _QWEN3_VL,
    "qwen3_5": _QWEN3_VL,
    "qwen3_5_moe": _QWEN3_VL,
    "minicpmv": replace(_SIGLIP, pooling_head=""),
    "idefics3": replace(_SIGLIP, pooling_head=""),
    "deepseek_vl_v2": replace(
        _SIGLIP, defaults={"hidden_size": 1024, "num_hidden_layers": 24, "image_size": 384, "patch_size": 16}
    ),
    "eva2_clip": Tower(patch_bias=True, class_token=True, positions=1),
    "glm4v": _GLM4V,
    "glm4v_moe": _GLM4V,
    "moonvit": Tower(patch_bias=True, positions=None, post_norm=True, learned_grid=True),
    "internvl_vision": Tower(patch_bias=True, class_token=True, positions=1, layer_scale=True),
    "llama4_vision_model": Tower(class_token=True, positions=1, pre_norm=True, post_norm=True),
}
WIDTHS = ("hidden_size", "vt_hidden_size", "width")  # a tower's width, by the names that configurations use
# A wrapper's tower where its own configuration does not name the type.
TOWER_OF: Mapping[str, str] = {
    "clip": "clip_vision_model",
    "siglip": "siglip_vision_model",
    "gemma3": "siglip_vision_model",
    "paligemma": "siglip_vision_model",
    "llava": "clip_vision_model",
    "internvl_chat": "intern_vit_6b",
    "llama4": "llama4_vision_model",
    "kimi_vl": "moonvit",
    "kimi_k25": "moonvit",
    "chatglm": "eva2_clip",
    "gemma3n": "gemma3n_vision",
    "smolvlm": "idefics3",
    "minicpmv": "minicpmv",
    "mistral3": "pixtral",
    "internvl": "internvl_vision",
    **{name: name for name in TOWERS},
}


def tower_for(outer: str, vision: Fields) -> str:
    """Return the type of a tower."""
    own = vision.text("model_type") or ""
    return own if own in TOWERS else TOWER_OF.get(outer, own)


def size_of(tower: Tower, vision: Fields, *names: str) -> int | None:
    """Return a dimension of a tower, or its layout's default."""
    found = vision.integer(*names)
    if found is None and isinstance(vision.values.get(names[0]), list):  # rows and columns
        sides = vision.integers(names[0])
        found = sides[0] if len(set(sides)) == 1 and sides[0] > 0 else None
    return found if found is not None else tower.defaults.get(names[0])


def _qkv_bias(tower: Tower, vision: Fields) -> bool:
    return vision.flag("qkv_bias", default=vision.flag("attention_bias", default=tower.qkv_bias))


def count_tower(name: str, vision: Fields) -> int | None:
    """Return the parameters of a tower; None where the type or a dimension is not known."""
    tower = TOWERS.get(name)
    if tower is None:
        return None
    width = size_of(tower, vision, *(("embed_dim",) if name == "qwen2_vl" else WIDTHS))
    layers = size_of(tower, vision, "num_hidden_layers", "depth", "vt_num_hidden_layers", "layers")
    inner = size_of(tower, vision, tower.inner, "vt_intermediate_size")
    if width and (name == "qwen2_vl" or (inner is None and "mlp_ratio" in vision)):
        inner = int(width * (vision.number("mlp_ratio") or 4))
    patch = size_of(tower, vision, "patch_size", "spatial_patch_size")
    if not width or not layers or not inner or not patch or layers > MOST_LAYERS:
        return None
    norm = width * (2 if tower.norm_bias else 1)
    mlp = linear(width, inner, bias=tower.bias) * (2 if tower.gated else 1) + linear(inner, width, bias=tower.bias)
    attention = linear(width, 3 * width, bias=_qkv_bias(tower, vision))
    attention += linear(width, width, bias=tower.out_bias)
    scaled = 2 * width if tower.layer_scale else 0
    scaled += 2 * width if name == "intern_vit_6b" and vision.flag("qk_normalization") else 0
    if name == "intern_vit_6b" and vision.text("norm_type") == "rms_norm":
        norm = width
    total = layers * (attention + mlp + 2 * norm + scaled) + (tower.pre_norm + tower.post_norm) * norm
    total += linear(3 * patch * patch * tower.temporal, width, bias=tower.patch_bias) + width * tower.class_token
    if tower.positions is not None:
        image, patches = size_of(tower, vision, "image_size"), vision.integer("num_patches")
        if not image:
            return None
        total += ((patches or (image // patch) ** 2) + tower.positions) * width
    if tower.learned_grid:
        total += width * (vision.integer("init_pos_emb_height") or 64) * (vision.integer("init_pos_emb_width") or 64)
    if tower.pooling_head and vision.flag("vision_use_head", default=True):
        total += width + linear(width, 3 * width, bias=True) + linear(width, width, bias=True) + 2 * width
        total += linear(width, inner, bias=True) + linear(inner, width, bias=True)
    return total


def count_resampler(seen: int, told: int, queries: int) -> int:
    """Return the parameters of learned queries that look at what is seen, with attention of the width that is told."""
    attention = linear(told, 3 * told, bias=True) + linear(told, told, bias=True)
    return queries * told + seen * told + attention + 4 * told
