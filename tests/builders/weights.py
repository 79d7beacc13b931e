"""Files of weights that their loaders would read."""

import json
import os
import struct

_HEADER_BYTES = 120


def safetensors(size_bytes: int) -> bytes:
    """Return a safetensors file of so many bytes, with one random tensor."""
    count = size_bytes - 8 - _HEADER_BYTES
    header = json.dumps({"w": {"dtype": "U8", "shape": [count], "data_offsets": [0, count]}}).encode()
    return struct.pack("<Q", _HEADER_BYTES) + header.ljust(_HEADER_BYTES) + os.urandom(count)
