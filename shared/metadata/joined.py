"""Models of several parts: a language model with a vision tower and a projector, two towers, encoder and decoder."""

from collections.abc import Callable, Mapping

from shared.metadata import gemma3n, phi4_multimodal
from shared.metadata.count import Count, count_text, linear
from shared.metadata.dimensions import Text, text_of, vision_part
from shared.metadata.fields import Fields
from shared.metadata.joins import JOINS
from shared.metadata.named_towers import count_clip_l, count_sam_b, count_siglip
from shared.metadata.vision import WIDTHS, count_resampler, count_tower, tower_for


def count_seeing(config: Fields, *, head: bool) -> Count | None:
    """Return the count of a language model with a vision tower; None where a part is not known."""
    outer, vision = config.text("model_type") or "", vision_part(config)
    if whole := _WHOLE.get(outer):
        return whole(config)
    join, text = JOINS.get(outer), text_of(config)
    if outer == "llava" and "mm_vision_tower" in config:
        return _llava_of_its_authors(config, head=head)
    if vision is None or not text.known:
        return None
    if outer == "deepseek_vl_v2" and isinstance(vision.values.get("width"), dict):
        return _deepseek_ocr(config)
    if join is None:
        return None
    text = _with_outer_tie(config, text)
    name = tower_for(outer, vision)
    tower = gemma3n.count_towers(config, vision) if outer == "gemma3n" else count_tower(name, vision)
    body = count_text(text, head=head)
    seen, told = _widths(name, vision, text)
    if tower is None or body is None or not seen or not told:
        return None
    return body + (tower + join(config, vision, seen, told))


def _widths(name: str, vision: Fields, text: Text) -> tuple[int | None, int | None]:
    told = text.dimension("hidden_size")
    if name == "qwen2_vl":
        return vision.integer("embed_dim") or 1280, told
    defaults = {"qwen2_5_vl": 1280, "clip_vision_model": 768, "siglip_vision_model": 768, "gemma3n_vision": 2048,
                "deepseek_vl_v2": 1024, "glm4v": 1536, "glm4v_moe": 1536}  # fmt: skip
    return vision.integer(*WIDTHS) or defaults.get(name), told


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
    supported = vision.values.get("supported_aspect_ratios") or [0] * 8
    if not isinstance(supported, list):
        raise vision.wrong("supported_aspect_ratios", "a list")
    ratios = len(supported) + 1
    if not patch:
        return None
    patches = (image // patch) ** 2 + 1
    layer = 4 * width * width + linear(width, inner, bias=True) + linear(inner, width, bias=True) + 4 * width
    total = (layers + gated) * layer + 2 * gated + 3 * patch * patch * width + width
    total += patches * width + 1 + ratios * tiles * patches * width
    return total + 2 * (ratios * tiles * width + 1) + 4 * width


def _phi4_multimodal(config: Fields) -> Count | None:
    text = text_of(config)
    body, beside = count_text(text), phi4_multimodal.count_beside(config, text)
    return body + beside if body and beside else None


def _qwen_vl(config: Fields) -> Count | None:
    """Return the count of the first Qwen-VL: a CLIP, queries that look at its patches, and a projection."""
    text, vision = text_of(config), vision_part(config)
    body = count_text(text)
    if vision is None or body is None:
        return body
    seen, told = vision.integer("width"), vision.integer("output_dim")
    if not seen or not told:
        return None
    patch, inner = vision.integer("patch_size") or 14, int(seen * (vision.number("mlp_ratio") or 4))
    clip = {"hidden_size": seen, "num_hidden_layers": vision.integer("layers"), "intermediate_size": inner,
            "patch_size": patch, "image_size": 16 * patch}  # fmt: skip
    tower = count_tower("clip_vision_model", Fields(vision.file, clip, vision.at))
    if tower is None:
        return None
    less = 3 * seen + seen  # neither a class token with its position nor a norm of its width at the end
    return body + (tower - less + count_resampler(seen, told, 256) + 256 * told + 2 * told + told * told)


def _deepseek_ocr(config: Fields) -> Count | None:
    """Return the count of DeepSeek-OCR: SAM before CLIP, one projection, and the ends of lines and of views."""
    text, clip = text_of(config), count_clip_l(config.file)
    body, told = count_text(text), text.dimension("hidden_size")
    projector = config.inner("projector_config")
    seen = projector.integer("input_dim") if projector else None
    if body is None or clip is None or not told or not seen:
        return None
    return body + (count_sam_b(detailed=False) + clip + linear(seen, told, bias=True) + 2 * told)


def _deepseek_vl(config: Fields) -> Count | None:
    """Return the count of the first DeepSeek-VL: one tower, or one for small images beside one for large ones."""
    text, vision, aligner = text_of(config), config.inner("vision_config"), config.inner("aligner_config")
    towers = vision.inner("params") if vision else None
    joined = aligner.inner("params") if aligner else None
    if "gen_vision_config" in config or towers is None or joined is None or not text.known:
        return None
    seen, told, depth = (joined.integer(name) for name in ("input_dim", "n_embed", "depth"))
    small = towers.inner("low_res_cfg")
    both, tower, body = small is not None, count_siglip(small or towers), count_text(text)
    if not seen or not told or body is None or tower is None:
        return None
    tower += count_sam_b(detailed=True) + 2 * 2 * seen if both else 0
    return body + (tower + linear(seen, told, bias=True) + max((depth or 1) - 1, 0) * linear(told, told, bias=True))


_WHOLE: Mapping[str, Callable[[Fields], Count | None]] = {
    "mllama": _mllama,
    "phi3_v": _phi3_vision,
    "phi4mm": _phi4_multimodal,
    "qwen": _qwen_vl,
    "multi_modality": _deepseek_vl,
}
