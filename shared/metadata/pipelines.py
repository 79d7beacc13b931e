"""Diffusion pipelines: parts from `model_index.json`, and parameter counts even if some parts lack headers."""

from collections.abc import Mapping

from shared.metadata.config.dimensions import dtype_of
from shared.metadata.documents import read_fields
from shared.metadata.estimate import MAX_PARAMETERS, bits_of_type, estimate_parameters
from shared.metadata.fields import Fields
from shared.metadata.files import ModelFiles
from shared.metadata.formats.tensors import TensorTotals
from shared.metadata.model_metadata import Component
from shared.metadata.weight_headers import count_safetensors
from shared.metadata.weights import Weights, select_weights

# Classes of parts without weights.
_NO_WEIGHTS = ("Scheduler", "Tokenizer", "TokenizerFast", "Processor", "FeatureExtractor", "ImageProcessor",
               "ImageProcessorFast")  # fmt: skip


def components_of(pipeline: Fields) -> dict[str, Component]:
    """Return the parts that exist, by folder."""
    found = {}
    for name, value in pipeline.values.items():
        match value:
            case [str(), str()] if "/" not in name and name.isprintable() and not name.startswith("_"):
                found[name] = Component(*pipeline.texts(name))
    return found


def is_whole(components: Mapping[str, Component], weights: Weights) -> bool:
    """Return whether every part that needs weights has some."""
    folders = {path.rpartition("/")[0] for path in weights.files}
    return weights.whole and all(name in folders for name, part in components.items() if has_weights(part.type))


def has_weights(kind: str) -> bool:
    """Return whether a part of this class has weights."""
    return not kind.endswith(_NO_WEIGHTS)


def estimate_components(files: ModelFiles, components: Mapping[str, Component]) -> int | None:
    """Return the parameters of all parts, estimated by size for parts without headers; None if one is unknown.

    Raises MetadataError, and what reading the files raises.
    """
    total = 0
    for name in (name for name, part in components.items() if has_weights(part.type)):
        found = _of_component(files, name, select_weights(files.sizes, pipeline=(name,)))
        if not found:
            return None
        total += found
    return total if 0 < total < MAX_PARAMETERS else None


def _of_component(files: ModelFiles, name: str, weights: Weights) -> int | None:
    if weights.format == "safetensors" and weights.whole:
        totals = TensorTotals()
        count_safetensors(files, weights, totals)
        return totals.total
    if weights.format != "pytorch" or not weights.whole:
        return None
    config = read_fields(files, f"{name}/config.json")
    bits = bits_of_type(dtype_of(config) if config else "", weights.files, config)
    return estimate_parameters(weights.size_bytes, bits) if bits else None
