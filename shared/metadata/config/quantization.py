"""Determines from the configurations how weights are quantized."""

from collections.abc import Mapping
from dataclasses import replace

from shared.metadata.fields import Fields
from shared.metadata.formats.tensors import Packing

_METHODS: Mapping[str, str] = {
    "fp8": "fp8", "fbgemm_fp8": "fbgemm_fp8", "gptq": "gptq", "awq": "awq", "bitsandbytes": "bitsandbytes",
    "compressed-tensors": "compressed-tensors", "compressed_tensors": "compressed-tensors", "mxfp4": "mxfp4",
    "nvfp4": "nvfp4", "gptqmodel": "gptq", "awq_marlin": "awq", "gptq_marlin": "gptq", "marlin": "gptq",
    "ptpc_fp8": "fp8", "modelopt_fp4": "nvfp4", "w4a16_nvfp4": "nvfp4", "int4": "int4", "int8": "int8",
}  # fmt: skip
_BY_BITS = {4: "int4", 8: "int8"}
_BY_TYPE = {"F8_E4M3": "fp8", "F8_E5M2": "fp8", "F4": "nvfp4"}


def packing_of(config: Fields | None, text: Fields | None, *others: Fields | None) -> Packing:
    """Return the quantizer and its bits; the configuration of the text part applies to the whole model.

    `others` are files that quantizers write separately (`hf_quant_config.json`, `quantize_config.json`).
    """
    for part in (config, text):
        if part is None:
            continue
        if found := part.inner("quantization_config", "compression_config"):
            paired = "fp4" in (part.text("expert_dtype"), found.text("expert_dtype"))
            return replace(_by_object(found), paired_experts=paired)
        if bits := part.integer("quantization_bit"):
            return Packing(_BY_BITS.get(bits, ""), bits)
    for other in others:
        if other is not None:
            return _by_object(other.inner("quantization") or other)
    return Packing()


def _by_object(found: Fields) -> Packing:
    method = (found.text("quant_method", "quant_algo", "qformat_weight") or "").lower()
    bits = _bits(found)
    if method in ("modelopt", ""):
        method = (found.text("quant_algo") or method).lower()
    if found.flag("load_in_4bit") or found.flag("_load_in_4bit"):
        return Packing("bitsandbytes", 4)
    if found.flag("load_in_8bit") or found.flag("_load_in_8bit"):
        return Packing("bitsandbytes", 8)
    if method in _METHODS:
        return Packing(_METHODS[method], bits)
    for word, name in (("nvfp4", "nvfp4"), ("mxfp4", "mxfp4"), ("fp8", "fp8"), ("awq", "awq"), ("gptq", "gptq")):
        if word in method:
            return Packing(name, bits)
    if not method and bits and "group_size" in found and found.file == "quantize_config.json":
        return Packing("gptq", bits)
    return Packing(_BY_BITS.get(bits, method), bits)


def _bits(found: Fields) -> int:
    own = found.values.get("bits", found.values.get("w_bit"))
    if isinstance(own, int) and not isinstance(own, bool) and 0 < own <= 16:  # noqa: PLR2004 - bits of a weight
        return own
    groups = found.inner("config_groups")
    for name in groups.values if groups else ():
        group = groups.inner(name) if groups else None
        weights = group.inner("weights") if group else None
        if weights and (bits := weights.integer("num_bits")):
            return bits
    return 0


def quantization_of(packing: Packing, main_type: str) -> str:
    """Return the name of the method, else derive it from the type of the weights; empty for plain weights."""
    return packing.method or _BY_TYPE.get(main_type, "")
