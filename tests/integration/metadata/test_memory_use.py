"""Hostile files increase memory use by less than 64 MiB; each is read in a separate process."""

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders.model_files import gguf, with_header

MAX_BYTES = 64 * 2**20
PROGRAM = """
import sys
from shared.errors import LarderError
from shared.metadata.files import DirectoryFiles
from shared.metadata.reader import read_metadata
def peak():
    for line in open("/proc/self/status"):  # of this program alone; getrusage has what its parent had as well
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
before = peak()
try:
    read_metadata(DirectoryFiles(sys.argv[1]))
except LarderError as error:
    print(type(error).__name__, file=sys.stderr)
print(peak() - before)
"""


def tensors(count: int) -> bytes:
    one = ",".join(f'"{i:x}":{{"dtype":"F32","shape":[],"data_offsets":[{4 * i},{4 * i + 4}]}}' for i in range(count))
    return with_header(f"{{{one}}}".encode(), 4 * count)


def keys(count: int) -> bytes:
    return b"{" + b",".join(b'"%x":0' % i for i in range(count)) + b"}"


CASES: dict[str, Callable[[], dict[str, bytes]]] = {  # made when needed: they take hundreds of megabytes
    "long text": lambda: {"config.json": b'{"a": "' + b"x" * 15_000_000 + b'"}'},
    "wide text": lambda: {"config.json": ('{"a": "' + "\U0001f600" * 400_000 + "x" * 400_000 + '"}').encode()},
    "many values": lambda: {"config.json": b'{"a": [' + b"[]," * 5_000_000 + b"[]]}"},
    "values up to the limit": lambda: {"config.json": b'{"a": [' + b"{}," * 29_000 + b"{}]}"},
    "nested": lambda: {"config.json": b'{"a":' * 1_000_000},
    "huge header": lambda: {"model.safetensors": with_header(b" " * 2**27, 0)},
    "many tensors": lambda: {"model.safetensors": tensors(60_000)},
    "too many tensors": lambda: {"model.safetensors": tensors(100_000)},
    "header of junk": lambda: {"model.safetensors": with_header(b'{"a":[' + b"[]," * 2_600_000 + b"[]]}", 0)},
    "header of keys": lambda: {"model.safetensors": with_header(keys(700_000), 0)},
    "many large headers": lambda: {
        f"model-{i:05d}-of-00008.safetensors": with_header(b'{"__metadata__":{"a":"' + b"x" * 7_000_000 + b'"}}', 0)
        for i in range(1, 9)
    },
    "long list": lambda: {"m.gguf": gguf({"a": ["x"] * 200_000}, {})},
    "long text of gguf": lambda: {"m.gguf": b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**26) + bytes(2**26)},
    "many keys": lambda: {"m.gguf": gguf({f"{i}": "x" * 20_000 for i in range(2_500)}, {})},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_memory_growth_is_bounded_for_hostile_files(name: str, tmp_path: Path) -> None:
    for path, body in CASES[name]().items():
        (tmp_path / path).write_bytes(body)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    environ = os.environ | {"MALLOC_ARENA_MAX": "2"}  # as in the process that reads metadata
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)  # noqa: S603 - our own program
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < MAX_BYTES, done.stderr
