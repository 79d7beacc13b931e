"""Fills fields of OME's BaseModel from a model's metadata."""

from typing import Any

from shared.metadata.model_metadata import Metadata

_ENUM = ("fp8", "fbgemm_fp8", "int4", "int8", "awq", "gptq", "bitsandbytes", "compressed-tensors", "mxfp4", "nvfp4")
_PARTS = {"scheduler": "scheduler", "text_encoder": "textEncoder", "tokenizer": "tokenizer",
          "transformer": "transformer", "vae": "vae"}  # fmt: skip


def ome_fields(found: Metadata) -> dict[str, Any]:
    """Return the known spec fields by name."""
    fields: dict[str, Any] = {
        "modelType": found.model_type,
        "modelArchitecture": next(iter(found.architectures), found.pipeline),
        "modelFormat": {"name": found.format} if found.format else None,
        "modelFramework": _framework(found),
        "quantization": found.quantization if found.quantization in _ENUM else None,
        "modelParameterSize": size_label(found.parameters) if found.parameters else None,
        "modelCapabilities": list(found.capabilities),
        "maxTokens": found.context_length,
        "diffusionPipeline": _pipeline(found),
    }
    return {name: value for name, value in fields.items() if value}


def size_label(parameters: int) -> str:
    """Format a number of parameters as OME does, for example `7B`, `1.71B`, `137M`."""
    for unit, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K")):
        if parameters >= unit:
            hundredths = round(parameters * 100 / unit)
            return f"{hundredths / 100:.2f}".rstrip("0").rstrip(".") + letter
    return str(parameters)


def _framework(found: Metadata) -> dict[str, str] | None:
    if not found.framework:
        return None
    version = {"version": found.framework_version} if found.framework_version else {}
    return {"name": found.framework, **version}


def _pipeline(found: Metadata) -> dict[str, Any] | None:
    if not found.pipeline:
        return None
    parts = {name: {"library": part.library, "type": part.type} for name, part in found.components.items()}
    known = {_PARTS[name]: part for name, part in parts.items() if name in _PARTS}
    others = {name: part for name, part in parts.items() if name not in _PARTS}
    return {"className": found.pipeline, **known, **({"additionalComponents": others} if others else {})}
