"""Counts parameters from the names, types and shapes of tensors."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from shared.metadata.errors import MetadataOversized

MAX_TENSORS = 500_000
LONGEST_NAME = 1024  # characters; real names have about a hundred
# Bits per element, by the type name in safetensors.
BITS: Mapping[str, int] = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64,
    "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
_NOT_PARAMETERS = re.compile(
    # scales, zero points and other data of quantizers
    r"(?:[._](?:scales?|scale_inv|scale_2|zeros?|qzeros|g_idx|zero_point|zero_points|weight_shape|input_amax"
    r"|absmax|quant_map|nested_absmax|nested_quant_map|SCB|weight_format|perm|channel_scale|biases|q_perm|q_scale"
    r"|q_scale_max|q_groups|q_group_map|act_scales|scale_bias|scaling_factor)|quant_state\.\w+"
    # buffers that are not weights
    r"|rotary_emb\.inv_freq|rotary_pos_emb\.inv_freq|\.inv_freq|position_ids|attn\.masked_bias|attention\.masked_bias"
    r"|\.tid2eid|pos_embed\.pos_embed|num_batches_tracked|running_mean|running_var)$"
)
# Learned scales, not from a quantizer: those of norms, of logits, and of the heads and streams of Gemma 3n.
_LEARNED = ("logit_scale", "layer_scale", "layer_scale.scale", "per_dim_scale", "correct_output_scale")
_MASK = re.compile(r"\.(?:attn|attention)\.bias$")
_ROUTED = re.compile(r"\.experts\.|block_sparse_moe\.(?:input|output)_linear\.|\.expert_\d|ffn\.experts|_exps\.")


@dataclass(frozen=True, slots=True)
class Packing:
    """What the configuration says about packed weights: the quantizer and its bits (0 if not given).

    `paired_experts` is whether the routed experts hold two 4-bit values per byte, whatever the quantizer of the rest.
    """

    method: str = ""
    bits: int = 0
    paired_experts: bool = False


@dataclass(slots=True)
class TensorTotals:
    """Parameters over all files, counting each tensor name once; `by_type` sums them by element type."""

    packing: Packing = Packing()
    total: int = 0
    routed: int = 0
    by_type: dict[str, int] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)

    def add(self, file: str, name: str, kind: str, shape: tuple[int, ...], *, double_packed: bool = False) -> None:
        """Count a tensor. Raises MetadataOversized."""
        count = parameters_of(name, kind, shape, self.packing, double_packed=double_packed)
        key = hash((file.rpartition("/")[0], name))  # the parts of a pipeline reuse names
        if not count or key in self._seen:
            return
        if len(self._seen) >= MAX_TENSORS:
            raise MetadataOversized(file, name, f"the model has more than {MAX_TENSORS} tensors")
        self._seen.add(key)
        self.total += count
        self.routed += count if _ROUTED.search(name) else 0
        self.by_type[kind] = self.by_type.get(kind, 0) + count


def parameters_of(
    name: str, kind: str, shape: tuple[int, ...], packing: Packing, *, double_packed: bool = False
) -> int:
    """Return how many parameters a tensor holds; 0 for scales, zero points and buffers.

    `double_packed` is whether a second scale exists for it, a sign of two 4-bit values per byte.
    """
    if (_NOT_PARAMETERS.search(name) and not _is_learned(name)) or (_MASK.search(name) and len(shape) == 4):  # noqa: PLR2004 - a causal mask
        return 0
    elements, bits = prod(shape), BITS.get(kind, 8)
    if name.endswith((".qweight", ".weight_packed", ".q_weight", ".B")) and kind in ("I32", "U8", "I8", "I16"):
        default = 4 if kind != "I8" else 8
        return elements * bits // (packing.bits or default)
    if kind == "U32" and name.endswith(".weight") and packing.bits:  # packed by MLX
        return elements * bits // packing.bits
    if name.endswith("_blocks") and kind == "U8":
        return elements * 2
    if packing.paired_experts and kind in ("I8", "U8") and _ROUTED.search(name):
        return elements * 2
    packed = packing.method == "nvfp4" or (packing.method, packing.bits) == ("bitsandbytes", 4)
    if kind == "U8" and (double_packed or packed):
        return elements * 2
    return elements


def _is_learned(name: str) -> bool:
    *_, part, last = ("", *name.rsplit(".", 2))
    return name.endswith(_LEARNED) or (last == "scale" and "norm" in part)
