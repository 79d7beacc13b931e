"""Metadata in a status, and as one line of text."""

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from controller.manager.conditions import ConditionUpdate, with_conditions
from shared.api.meta import ModelStatus, ReadMetadata
from shared.metadata.model_metadata import Metadata
from shared.metadata.ome import size_label

S = TypeVar("S", bound=ModelStatus)


def described_status(
    before: S, update: ConditionUpdate, metadata: ReadMetadata | None, stamp: str, generation: int
) -> S:
    """Return the status with a condition and metadata; the condition keeps its position among the others."""
    fresh = with_conditions(before.conditions, [update], stamp, generation)[0]
    conditions = [fresh if c.type == update.kind else c for c in before.conditions]
    if fresh not in conditions:
        conditions.append(fresh)
    return msgspec.structs.replace(before, conditions=conditions, metadata=metadata)


def line_of(found: Metadata) -> str:
    """Return a one-line description of a model."""
    return ", ".join(_parts(found)) or "no metadata is known"


def _parts(found: Metadata) -> Iterator[str]:
    name = next(iter(found.architectures), found.pipeline) or found.model_type
    if name:
        yield name
    if found.parameters is not None:
        estimated = "about " if found.parameters_from == "estimate" else ""
        yield f"{estimated}{size_label(found.parameters)} parameters"
    if found.quantization or found.dtype:
        yield found.quantization or found.dtype
    if found.context_length is not None:
        yield f"{found.context_length:,} tokens of context"
    if found.format:
        yield found.format
