"""Vision towers of which a configuration says little more than the name."""

from shared.metadata.count import linear
from shared.metadata.fields import Fields
from shared.metadata.vision import count_tower

_SIGLIP = {
    "siglip_large_patch16_384": {"hidden_size": 1024, "num_hidden_layers": 24, "intermediate_size": 4096,
                                 "patch_size": 16},
    "siglip_so400m_patch14_384": {"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304,
                                  "patch_size": 14},
    "siglip_so400m_patch14_224": {"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304,
                                  "patch_size": 14},
}  # fmt: skip
_CLIP_L = {"hidden_size": 1024, "num_hidden_layers": 24, "intermediate_size": 4096, "image_size": 224,
           "patch_size": 14}  # fmt: skip


def count_siglip(params: Fields) -> int | None:
    """Return the parameters of the SigLIP of this `model_name` and `image_size`; None where the name is not known."""
    dimensions = _SIGLIP.get(params.text("model_name") or "")
    if dimensions is None:
        return None
    image = params.integer("image_size") or 384
    return count_tower("siglip_vision_model", Fields(params.file, {**dimensions, "image_size": image}))


def count_clip_l(file: str) -> int | None:
    """Return the parameters of CLIP-L as DeepSeek-OCR has it: without the norm at its end."""
    whole = count_tower("clip_vision_model", Fields(file, _CLIP_L))
    return None if whole is None else whole - 2 * _CLIP_L["hidden_size"]


def count_sam_b(*, detailed: bool) -> int:
    """Return the parameters of SAM-B with a neck and two convolutions that bring it to 1024 channels.

    `detailed` is whether there is a second neck over earlier layers, with its weight.
    """
    width, layers, patch, out, head = 768, 12, 16, 256, 64
    side, window, over_all = 1024 // patch, 14, 4
    mlp = linear(width, 4 * width, bias=True) + linear(4 * width, width, bias=True)
    layer = linear(width, 3 * width, bias=True) + linear(width, width, bias=True) + mlp + 4 * width
    relative = 2 * head * (over_all * (2 * side - 1) + (layers - over_all) * (2 * window - 1))
    neck = width * out + 9 * out * out + 4 * out
    total = linear(3 * patch * patch, width, bias=True) + side * side * width + layers * layer + relative + neck
    total += 9 * out * 512 + 9 * 512 * 1024
    return total + (neck + 1 if detailed else 0)
