"""Diffusion pipelines: their parts, by `model_index.json`, and the parameters of these."""

from collections.abc import Mapping

from shared.metadata.diffusion import count_part, has_weights
from shared.metadata.documents import read_fields
from shared.metadata.fields import Fields
from shared.metadata.files import ModelFiles
from shared.metadata.parameters import MOST_PARAMETERS
from shared.metadata.report import Component
from shared.metadata.selection import Weights


def components_of(pipeline: Fields) -> dict[str, Component]:
    """Return the parts that are there, by their folders."""
    found = {}
    for name, value in pipeline.values.items():
        match value:
            case [str(), str()] if "/" not in name and name.isprintable() and not name.startswith("_"):
                found[name] = Component(*pipeline.texts(name))
    return found


def is_whole(components: Mapping[str, Component], weights: Weights) -> bool:
    """Return whether each part that has weights has some among these."""
    folders = {path.rpartition("/")[0] for path in weights.files}
    return weights.whole and all(name in folders for name, part in components.items() if has_weights(part.type))


def count_components(files: ModelFiles, components: Mapping[str, Component]) -> int | None:
    """Return the parameters by the parts' configurations; None where one of them cannot be known so.

    Raises MetadataError and what the files raise.
    """
    total = 0
    for name, part in components.items():
        if not has_weights(part.type):
            continue
        config = read_fields(files, f"{name}/config.json")
        counted = count_part(part.type, config) if config is not None else None
        if counted is None or not 0 < counted < MOST_PARAMETERS:
            return None
        total += counted
    return total or None
