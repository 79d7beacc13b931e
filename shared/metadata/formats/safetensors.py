"""Headers of safetensors files: names, types and shapes of tensors, without their bytes."""

import struct
from collections.abc import Iterator
from math import prod
from typing import Annotated

import msgspec

from shared.decode_errors import DECODE_ERRORS
from shared.metadata.errors import MetadataMalformed, MetadataOversized
from shared.metadata.formats.tensors import BITS, LONGEST_NAME, TensorTotals

FIRST_BYTES = 64 * 1024
_MAX_HEADER_BYTES = 8 * 2**20
_MAX_TENSORS = 65_536
_MAX_QUOTES = 10 * _MAX_TENSORS + 2**16  # a tensor has four keys and its type; the rest is for the file itself
_MAX_DIMENSIONS = 32
_MAX_PER_BYTE = 8  # elements: none has less than a bit
PREFIX_BYTES = 8


class _Tensor(msgspec.Struct, gc=False):
    dtype: str
    shape: Annotated[tuple[int, ...], msgspec.Meta(max_length=_MAX_DIMENSIONS)]
    data_offsets: tuple[int, int]


_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TENSOR = msgspec.json.Decoder(_Tensor)


def header_bytes(file: str, prefix: bytes, size: int) -> int:
    """Return the length of the header after its first 8 bytes. Raises MetadataMalformed, MetadataOversized."""
    if len(prefix) < PREFIX_BYTES:
        raise MetadataMalformed(
            file, "header", "is missing: the file is shorter than 8 bytes, so it is not a safetensors file"
        )
    (length,) = struct.unpack_from("<Q", prefix)
    if length + PREFIX_BYTES > size:
        problem = f"announces {length} bytes in a file of {size}; the file is truncated or not a safetensors file"
        raise MetadataMalformed(file, "header", problem)
    if length > _MAX_HEADER_BYTES:
        raise MetadataOversized(file, "header", f"has {length} bytes; the limit is {_MAX_HEADER_BYTES}")
    return int(length)


def whole_header(file: str, first: bytes, rest: bytes, length: int) -> bytes:
    """Join the JSON of the header from the first and second read. Raises MetadataMalformed if bytes are missing."""
    header = first[PREFIX_BYTES : PREFIX_BYTES + length] + rest
    if len(header) != length:
        raise MetadataMalformed(file, "header", f"ends after {len(header)} of {length} bytes")
    return header


def count_header(file: str, header: bytes, data_bytes: int, totals: TensorTotals) -> None:
    """Add the tensors of a header to the totals. Raises MetadataMalformed, MetadataOversized, naming the tensor."""
    if header.count(b'"data_offsets"') > _MAX_TENSORS:
        raise MetadataOversized(file, "header", f"has more than {_MAX_TENSORS} tensors")
    if header.count(b'"') > _MAX_QUOTES:
        raise MetadataOversized(file, "header", f"has more than {_MAX_QUOTES} quotation marks around keys and strings")
    tensors = list(_tensors(file, header))
    _check_offsets(file, tensors, data_bytes)
    names = {name for name, _ in tensors}
    for name, tensor in tensors:
        double = tensor.dtype == "U8" and f"{name}_scale_2" in names
        totals.add(file, name, tensor.dtype, tensor.shape, double_packed=double)


def _tensors(file: str, header: bytes) -> Iterator[tuple[str, _Tensor]]:
    try:
        raw = _DECODER.decode(header)
    except DECODE_ERRORS as error:
        raise MetadataMalformed(file, "header", f"is not valid JSON: {_short(error)}") from error
    for name, body in raw.items():
        if name == "__metadata__":
            continue
        if len(name) > LONGEST_NAME:
            raise MetadataOversized(file, name, f"is a name of {len(name)} characters; the limit is {LONGEST_NAME}")
        try:
            yield name, _TENSOR.decode(body)
        except DECODE_ERRORS as error:
            raise MetadataMalformed(file, name, f"does not describe a tensor: {_short(error)}") from error


def _check_offsets(file: str, tensors: list[tuple[str, _Tensor]], data_bytes: int) -> None:
    """Refuse offsets outside the file, overlaps, gaps (also by repeated names) and sizes that do not fit the shape."""
    position = 0
    for name, tensor in sorted(tensors, key=lambda item: item[1].data_offsets):
        begin, end = tensor.data_offsets
        if min((0, *tensor.shape)) < 0 or begin != position or end < begin or end > data_bytes:
            problem = f"has bytes {begin} to {end}, but must begin at {position} and end within {data_bytes} bytes"
            raise MetadataMalformed(file, name, problem)
        bits = BITS.get(tensor.dtype)
        if bits is not None and (prod(tensor.shape) * bits + 7) // 8 != end - begin:
            problem = f"has {end - begin} bytes for {tensor.dtype} of shape {list(tensor.shape[:8])}"
            raise MetadataMalformed(file, name, problem)
        if bits is None and prod(tensor.shape) > _MAX_PER_BYTE * (end - begin):
            problem = f"has {end - begin} bytes for type {_short(tensor.dtype)} of shape {list(tensor.shape[:8])}"
            raise MetadataMalformed(file, name, problem)
        position = end
    if position != data_bytes:
        raise MetadataMalformed(
            file, "header", f"describes {position} of {data_bytes} bytes; the file is truncated or too long"
        )


def _short(error: Exception | str) -> str:
    return ascii(str(error)[:160])[1:-1]
