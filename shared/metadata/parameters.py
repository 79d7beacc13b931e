"""The number of parameters of a model by its configuration alone."""

from dataclasses import dataclass
from typing import Literal

from shared.metadata.count import Count, count_text, linear
from shared.metadata.dimensions import Text, text_of, vision_part
from shared.metadata.encoders import count_paired
from shared.metadata.fields import Fields
from shared.metadata.joined import count_seeing

_POOLED = (
    "bert",
    "albert",
    "mpnet",
)  # whose classifiers stand behind the pooler; of others they have a layer of theirs
# Models of several parts whose configurations do not name a part that sees, and of which not all can be counted.
_SEEING = ("phi3_v", "mllama", "phi4mm", "minicpmv", "minicpmo", "idefics2", "florence2", "chameleon", "fuyu", "molmo",
           "cogvlm", "deepseek_vl_v2", "multi_modality", "qwen2_audio")  # fmt: skip

MOST_PARAMETERS = 2**50  # dimensions that come to more are of no real model
_HEARING = ("gemma3n",)  # models with a part that hears, which can be counted


@dataclass(frozen=True, slots=True)
class Computed:
    """A count and whether it is exact, or an estimate because the family is not in the table."""

    count: Count
    basis: Literal["dimensions", "estimate"]


def compute(config: Fields, *, embeds: bool) -> Computed | None:
    """Return the count by dimensions; None where they do not say enough. `embeds`: no language head is stored."""
    architecture = next(iter(config.texts("architectures")), "")
    if paired := count_paired(config, architecture):
        return Computed(paired, "dimensions")
    bare = architecture.endswith("Model") and not architecture.endswith("LMHeadModel")
    kind = config.text("model_type") or ""
    if "audio_config" in config and kind not in _HEARING:
        return None
    seeing = kind in _SEEING or "mm_vision_tower" in config
    if vision_part(config) is not None or seeing:
        seen = count_seeing(config, head=not embeds)
        return Computed(seen, "dimensions") if seen else None
    text = text_of(config)
    if "ForSequenceClassification" in architecture:
        found = _classifier(text)
    elif "RewardModel" in architecture:
        found = _rewarding(text)
    else:
        found = count_text(text, head=not (bare or embeds))
    return Computed(found, "dimensions" if text.known else "estimate") if found else None


def labels_of(config: Fields) -> int:
    """Return how many classes a classifier tells apart."""
    named = config.inner("id2label")
    return config.integer("num_labels") or (len(named.values) if named else 2)


def _rewarding(text: Text) -> Count | None:
    body, hidden = count_text(text, head=False), text.dimension("hidden_size")
    return body + hidden if body and hidden else None


def _classifier(text: Text) -> Count | None:
    labels, hidden = labels_of(text.config), text.dimension("hidden_size")
    body = count_text(text, head=False, pooler=text.type in _POOLED)
    if body is None or not hidden:
        return None
    if text.family.head:  # a decoder
        return body + hidden * labels
    if text.type in _POOLED:
        return body + linear(hidden, labels, bias=True)
    if text.type == "modernbert":
        return body + (hidden * hidden + hidden + linear(hidden, labels, bias=True))
    return body + (linear(hidden, hidden, bias=True) + linear(hidden, labels, bias=True))
