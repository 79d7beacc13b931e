"""Where pickles hide: in a file itself, in archives (torch, tar), in arrays of objects (numpy), compressed."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from shared.pickles.arrays import NPY, why_objects
from shared.pickles.compressed import unpack
from shared.pickles.opcodes import is_pickle
from shared.pickles.parts import Budget, Part, UnreadableError
from shared.pickles.tars import starts_as_tar, tar_parts
from shared.pickles.zips import cut_zip_parts, ends_as_zip, starts_as_zip, zip_parts

_HEAD_BYTES = 512
_DEEPEST = 3
_NAMES = (".pkl", ".pickle")


def why_pickle(file: BinaryIO, size: int, *, cut: bool = False) -> str:
    """Return why a file of `size` bytes counts as a pickle, in words that follow its name; empty where it does not.

    `cut` is whether only its start is here. What cannot be looked through counts as one. Raises OSError.
    """
    return _Look(Budget()).why(file, size, cut=cut)


@dataclass(frozen=True, slots=True)
class _Look:
    """The look at one file, and at what it holds, `depth` archives down."""

    budget: Budget
    depth: int = 0

    def why(self, file: BinaryIO, size: int, *, cut: bool) -> str:
        try:
            return self._why(file, size, cut=cut)
        except UnreadableError as error:
            return str(error)

    def _why(self, file: BinaryIO, size: int, *, cut: bool) -> str:
        self.budget.spend()
        file.seek(0)
        head = file.read(_HEAD_BYTES)
        if starts_as_zip(head):
            return self._in_cut_zip(file, size) if cut else self._in_parts(zip_parts(file, size, self.budget))
        if why := self._by_head(file, size, head, cut=cut):
            return why
        if is_pickle(file, size, self.budget, cut=cut):
            return "is a pickle"
        if not cut and ends_as_zip(file, size):
            return self._in_parts(zip_parts(file, size, self.budget))
        return ""

    def _by_head(self, file: BinaryIO, size: int, head: bytes, *, cut: bool) -> str:
        if head.startswith(NPY):
            return why_objects(file)
        unpacked = unpack(file, size, head, self.budget, cut=cut)
        if unpacked and (why := self._in_compressed(unpacked.data, cut=unpacked.cut)):
            return why
        if starts_as_tar(head):
            return self._in_parts(tar_parts(file, size, self.budget, cut=cut))
        return ""

    def _in_cut_zip(self, file: BinaryIO, size: int) -> str:
        file.seek(0)
        return self._in_parts(cut_zip_parts(file.read(size), self.budget))

    def _in_compressed(self, data: bytes, *, cut: bool) -> str:
        why = self._deeper().why(io.BytesIO(data), len(data), cut=cut)
        return f"{why}, compressed" if why else ""

    def _in_parts(self, parts: Iterator[Part]) -> str:
        deeper = self._deeper()
        for part in parts:
            if part.name.lower().endswith(_NAMES):
                return f"holds the pickle {part.name!r}"
            if why := deeper.why(part.file, part.size, cut=part.cut):
                return f"holds {part.name!r}, which {why}"
        return ""

    def _deeper(self) -> "_Look":
        if self.depth == _DEEPEST:
            raise UnreadableError("is packed too deep to be looked through")
        return _Look(self.budget, self.depth + 1)
