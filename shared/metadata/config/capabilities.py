"""Derives a model's capabilities, in OME's terms, from its class, its parts and its other files."""

from collections.abc import Mapping

from shared.metadata.config.dimensions import vision_part
from shared.metadata.fields import Fields

_EMBEDDERS = ("bert", "roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "distilbert", "electra", "albert",
              "mpnet", "deberta-v2", "nomic_bert", "modernbert", "clip", "siglip", "siglip2", "new", "gte", "jina_bert",
              "xlm-roberta-flash", "clip_text_model", "clip_vision_model", "siglip_vision_model")  # fmt: skip
_VIDEO = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "llava_next_video",
          "video_llava", "llava_onevision", "glm4v", "glm4v_moe", "internvl", "kimi_k25")  # fmt: skip
_SEEING = ("phi3_v", "phi4mm", "mllama", "idefics2", "idefics3", "smolvlm", "florence2", "chameleon", "fuyu", "molmo",
           "minicpmv", "cogvlm", "deepseek_vl", "deepseek_vl_v2", "multi_modality", "qwen2_audio_vl")  # fmt: skip
# The first of these that occurs in the class name of a diffusion pipeline determines its output.
_PIPELINES = (
    ("ImageToVideo", "IMAGE_TEXT_TO_VIDEO"), ("VideoDiffusion", "IMAGE_TEXT_TO_VIDEO"), ("Wan", "TEXT_TO_VIDEO"),
    ("Video", "TEXT_TO_VIDEO"), ("Mochi", "TEXT_TO_VIDEO"), ("LTX", "TEXT_TO_VIDEO"), ("CogVideo", "TEXT_TO_VIDEO"),
    ("Audio", "TEXT_TO_AUDIO"), ("Music", "TEXT_TO_AUDIO"), ("Img2Img", "IMAGE_TEXT_TO_IMAGE"),
    ("Inpaint", "IMAGE_TEXT_TO_IMAGE"), ("Edit", "IMAGE_TEXT_TO_IMAGE"), ("Kontext", "IMAGE_TEXT_TO_IMAGE"),
    ("InstructPix2Pix", "IMAGE_TEXT_TO_IMAGE"), ("Fill", "IMAGE_TEXT_TO_IMAGE"),
)  # fmt: skip
_BY_TYPE: Mapping[str, tuple[str, ...]] = {
    "whisper": ("AUDIO_TO_TEXT", "AUDIO_TRANSLATION"),
    "wav2vec2": ("AUDIO_TO_TEXT",),
    "musicgen": ("TEXT_TO_AUDIO",),
    "bark": ("TEXT_TO_AUDIO",),
    "speecht5": ("TEXT_TO_AUDIO",),
}


def of_pipeline(name: str) -> tuple[str, ...]:
    """Return the capabilities of a diffusion pipeline of this class."""
    return (next((made for word, made in _PIPELINES if word in name), "TEXT_TO_IMAGE"),)


def of_model(config: Fields, *, sentence: bool) -> tuple[str, ...]:
    """Return the capabilities of a model; `sentence` is whether it has the files of a sentence transformer."""
    kind = config.text("model_type") or ""
    name = next(iter(config.texts("architectures")), "")
    if kind in _BY_TYPE:
        return _BY_TYPE[kind]
    if _reranks(config, name):
        return ("RERANK",)
    if "ForSequenceClassification" in name or "ForTokenClassification" in name or "RewardModel" in name:
        return ()
    if sentence or kind in _EMBEDDERS or _is_bare(config, kind, name):
        return ("EMBEDDING",)
    return _of_generator(config, kind)


def _is_bare(config: Fields, kind: str, name: str) -> bool:
    """Return whether a class has no head that generates text.

    Vision models have one, except those that compare texts with images.
    """
    if not name.endswith("Model") or name.endswith("LMHeadModel") or "T5" in name:
        return False
    if vision_part(config) is not None and not kind.endswith(("clip", "siglip", "siglip2")):
        return False
    return "ForCausalLM" not in str(config.values.get("auto_map"))


def _reranks(config: Fields, name: str) -> bool:
    if "Reranker" in name or "ForRanking" in name:
        return True
    return "ForSequenceClassification" in name and _labels_of(config) == 1


def _labels_of(config: Fields) -> int:
    """Return the number of classes of a classifier."""
    named = config.inner("id2label")
    return config.integer("num_labels") or (len(named.values) if named else 2)


def _of_generator(config: Fields, kind: str) -> tuple[str, ...]:
    found, config = [], config.inner("thinker_config") or config
    if vision_part(config) is not None or kind in _SEEING or "mm_vision_tower" in config:
        found.append("IMAGE_TEXT_TO_TEXT")
    if kind in _VIDEO or "video_token_id" in config or "video_token_index" in config:
        found.append("VIDEO_TEXT_TO_TEXT")
    if any(part in config for part in ("audio_config", "audio_processor")) or "audio" in kind or kind == "phi4mm":
        found.append("AUDIO_TEXT_TO_TEXT")
    return (*found, "TEXT_TO_TEXT")
