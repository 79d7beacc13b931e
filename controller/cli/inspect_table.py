"""Formats a model's metadata as text."""

from collections.abc import Iterator

from shared.metadata.model_metadata import Metadata
from shared.metadata.ome import size_label
from shared.quantity import format_bytes

_BASES = {
    "headers": "counted from the headers of the weights",
    "index": "counted from the index of the weights",
    "estimate": "estimated from the size of the weights and their type",
}


def table_of(found: Metadata) -> list[str]:
    """Return one line for each known property."""
    rows = [(name, text) for name, text in _rows(found) if text]
    width = max(len(name) for name, _ in rows)
    return [f"{name:{width}}  {text}" for name, text in rows]


def _rows(found: Metadata) -> Iterator[tuple[str, str]]:
    yield "type", found.model_type
    yield "architecture", ", ".join(found.architectures) or found.pipeline
    yield "framework", f"{found.framework} {found.framework_version}".strip()
    yield "format", found.format
    yield "dtype", found.dtype
    bits = f" ({found.quantization_bits} bits)" if found.quantization_bits else ""
    yield "quantization", found.quantization + bits if found.quantization else ""
    yield "parameters", _parameters(found)
    yield "active", _number(found.parameters_active) if found.experts else ""
    yield "context", _number(found.context_length, "tokens")
    yield "vocabulary", _number(found.vocabulary_size)
    yield "layers", _number(found.layers)
    yield "heads", _heads(found)
    yield "experts", f"{found.experts}, {found.experts_active or 'unknown'} active" if found.experts else ""
    yield "KV cache", _number(found.kv_cache_bytes_per_token, "bytes per token")
    yield "files", f"{format_bytes(found.size_bytes)}, including {format_bytes(found.weight_bytes)} of weights"
    yield "capabilities", ", ".join(found.capabilities)
    for name, part in found.components.items():
        yield f"  {name}", f"{part.library} {part.type}"
    if found.adapter:
        rank = f", rank {found.adapter.rank}" if found.adapter.rank is not None else ""
        yield "adapter", f"{found.adapter.kind} of {found.adapter.base_model or 'an unnamed model'}{rank}"
    yield "chat template", "yes" if found.chat_template else "no"
    yield "custom code", "yes, the model includes Python code" if found.custom_code else "no"
    yield "licence", found.licence


def _parameters(found: Metadata) -> str:
    if found.parameters is None:
        return "unknown: no headers to count from, and no weights of a known type to estimate from"
    basis = _BASES[found.parameters_from]
    if found.parameters_from == "estimate":
        return f"~{size_label(found.parameters)}, {basis}"
    return f"{found.parameters:,} ({size_label(found.parameters)}), {basis}"


def _number(value: int | None, unit: str = "") -> str:
    return "" if value is None else f"{value:,} {unit}".strip()


def _heads(found: Metadata) -> str:
    if found.heads is None:
        return ""
    keys = f", {found.kv_heads} for keys and values" if found.kv_heads not in (None, found.heads) else ""
    return f"{found.heads}{keys}" + (f", {found.head_dim} wide" if found.head_dim else "")
