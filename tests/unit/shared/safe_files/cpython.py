"""The behaviour of CPython's own unpickler, with every name in the data replaced by the same harmless class."""

import io
import pickle
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_MORE_BYTES = 512 * 2**20


class Recording(type):
    """A metaclass that records calls of its classes."""

    calls = 0

    def __call__(cls, *_: object, **__: object) -> object:
        Recording.calls += 1
        return cls


class Stub(metaclass=Recording):
    """Replaces everything that a pickle names."""

    def __new__(cls, *_: object, **__: object) -> Any:
        Recording.calls += 1
        return cls


VALUES = {("sys", "version_info"): (), ("os", "name"): "posix"}  # a name need not refer to a class


class Watched(pickle.Unpickler):
    """CPython's unpickler, which resolves all names but those in `VALUES` to the same harmless class."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.modules: list[str] = []

    def find_class(self, module: str, name: str) -> Any:
        if not re.fullmatch(r"[\w.-]+", module):
            raise ImportError(module)
        self.modules.append(module)
        return VALUES.get((module, name), Stub)


@contextmanager
def _little_memory() -> Iterator[None]:
    """Make allocations of gigabytes fail: an index in a pickle makes CPython fill a memo of that length."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used_bytes + _MORE_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def is_dangerous(data: bytes) -> bool:
    """Return whether CPython calls something, or reaches the end after importing a module that may exist."""
    watched, before = Watched(data), Recording.calls
    try:
        with _little_memory():
            watched.load()
    except Exception:  # noqa: BLE001 - whatever a broken pickle raises
        ended = False
    else:
        ended = True
    imported = any("." in module or module in sys.stdlib_module_names for module in watched.modules)
    return Recording.calls > before or (ended and imported)
