"""Reads an untrusted pack of Git objects in memory. No input or output.

Git's own programs trust their disk and memory to be large enough. Here the sum of all objects, whole and as deltas, is
bounded before it is allocated, and nothing recurses.
"""

import hashlib
import zlib
from collections import defaultdict
from dataclasses import dataclass, field

_COMMIT, _TREE, _BLOB, _TAG, _OFFSET_DELTA, _ID_DELTA = 1, 2, 3, 4, 6, 7
_KINDS = {_COMMIT: b"commit", _TREE: b"tree", _BLOB: b"blob", _TAG: b"tag"}
_HEADER_BYTES, _ID_BYTES = 12, 20
_SLICE_BYTES = 4096
_COPY_ALL = 0x10000
_STEP_BYTES = 16  # each step of a delta counts as this much, because it takes time even for a single byte


class BadPack(ValueError):
    """The data is damaged, or is not a pack."""


class PackTooLarge(Exception):
    """The objects of the pack exceed the limit."""


@dataclass(frozen=True, slots=True)
class GitObject:
    """An object: `commit`, `tree`, `blob` or `tag`, and its content."""

    kind: bytes
    content: bytes

    @property
    def id(self) -> str:
        """The SHA-1 by which other objects refer to this one."""
        header = self.kind + b" %d\0" % len(self.content)
        return hashlib.sha1(header + self.content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class _Delta:
    at: int
    base: int | str  # an offset or an id
    content: bytes


@dataclass(slots=True)
class _Reader:
    data: memoryview
    left_bytes: int
    at: int = _HEADER_BYTES
    by_offset: dict[int, GitObject] = field(default_factory=dict)
    by_id: dict[str, GitObject] = field(default_factory=dict)

    def read_entry(self) -> _Delta | None:
        """Read the next entry: keep a whole object, return a delta."""
        start, kind, size = self.at, *self._kind_and_size()
        base: int | str = ""
        if kind == _OFFSET_DELTA:
            base = start - self._offset()
        elif kind == _ID_DELTA:
            base = self._take(_ID_BYTES).hex()
        elif kind not in _KINDS:
            raise BadPack(f"an entry of the unknown type {kind}")
        content = self._inflate(size)
        if isinstance(base, int) or base:
            return _Delta(start, base, content)
        self.keep(start, GitObject(_KINDS[kind], content))
        return None

    def keep(self, at: int, found: GitObject) -> None:
        self.by_offset[at] = self.by_id[found.id] = found

    def base_of(self, base: int | str) -> GitObject | None:
        return self.by_offset.get(base) if isinstance(base, int) else self.by_id.get(base)

    def spend(self, size: int) -> None:
        self.left_bytes -= size
        if self.left_bytes < 0:
            raise PackTooLarge

    def _take(self, count: int) -> bytes:
        found = bytes(self.data[self.at : self.at + count])
        if len(found) < count:
            raise BadPack("it ends early")
        self.at += count
        return found

    def _byte(self) -> int:
        return self._take(1)[0]

    def _kind_and_size(self) -> tuple[int, int]:
        byte = self._byte()
        kind, size, shift = byte >> 4 & 7, byte & 15, 4
        while byte & 0x80:
            byte = self._byte()
            size |= (byte & 0x7F) << shift
            shift += 7
            if shift > 60:  # noqa: PLR2004 - no object has 2**60 bytes
                raise BadPack("an entry with an impossible size")
        return kind, size

    def _offset(self) -> int:
        byte = self._byte()
        offset = byte & 0x7F
        while byte & 0x80:
            byte = self._byte()
            offset = (offset + 1 << 7) | (byte & 0x7F)
            if offset > len(self.data):
                raise BadPack("a delta before the start of the pack")
        return offset

    def _inflate(self, size: int) -> bytes:
        self.spend(size)
        stream, parts, left = zlib.decompressobj(), list[bytes](), size
        try:
            while not stream.eof:
                part = self.data[self.at : self.at + _SLICE_BYTES]
                if not part:
                    raise BadPack("it ends early")
                found = stream.decompress(part, left + 1)
                parts.append(found)
                left -= len(found)
                if left < 0 or stream.unconsumed_tail:
                    raise BadPack("an entry is longer than it declares")
                self.at += len(part) - len(stream.unused_data)
        except zlib.error as error:
            raise BadPack(str(error)) from error
        if left:
            raise BadPack("an entry is shorter than it declares")
        return b"".join(parts)


def read_pack(data: bytes | bytearray, max_objects: int, max_bytes: int) -> dict[str, GitObject]:
    """Return the objects by id. Raises BadPack, PackTooLarge.

    Args:
        data: The pack.
        max_objects: Limit on the number of objects.
        max_bytes: Limit on the sum of their sizes; a delta also counts with the object that it produces, and its steps.
    """
    if len(data) < _HEADER_BYTES or data[:4] != b"PACK" or int.from_bytes(data[4:8]) not in (2, 3):
        raise BadPack("it does not start like a pack")
    if (count := int.from_bytes(data[8:12])) > max_objects:
        raise PackTooLarge
    reader = _Reader(memoryview(data), max_bytes)
    deltas = [delta for _ in range(count) if (delta := reader.read_entry()) is not None]
    _resolve(reader, deltas)
    return reader.by_id


def _resolve(reader: _Reader, deltas: list[_Delta]) -> None:
    """Keep the object that each delta produces, whatever the order of the deltas.

    Each delta is processed once: a server may send them in an order in which every one waits for the next.
    """
    of_base: defaultdict[int | str, list[_Delta]] = defaultdict(list)
    for delta in deltas:
        of_base[delta.base].append(delta)
    bases = [key for key in of_base if reader.base_of(key) is not None]
    left = len(deltas)
    while bases:
        key = bases.pop()
        base = reader.base_of(key)
        if base is None:
            raise BadPack("a delta against an object that is not in it")
        for delta in of_base.pop(key, ()):
            made = GitObject(base.kind, _apply(reader, base.content, delta.content))
            reader.keep(delta.at, made)
            bases += (known for known in (delta.at, made.id) if known in of_base)
            left -= 1
    if left:
        raise BadPack("a delta against an object that is not in it")


def _apply(reader: _Reader, base: bytes, delta: bytes) -> bytes:
    """Return the content that a delta produces from copies of its base and new bytes."""
    base_size, at = _varint(delta, 0)
    size, at = _varint(delta, at)
    if base_size != len(base):
        raise BadPack("a delta against another base")
    reader.spend(size)
    made, copies = bytearray(), memoryview(base)
    while at < len(delta):
        code, at = delta[at], at + 1
        reader.spend(_STEP_BYTES)
        if code & 0x80:
            offset, count, at = _copy(delta, code, at)
            if offset + count > base_size:
                raise BadPack("a delta copies data from beyond the end of its base")
            made += copies[offset : offset + count]
        elif code:
            made += delta[at : at + code]
            at += code
        else:
            raise BadPack("a delta with a reserved code")
        if len(made) > size:
            raise BadPack("a delta produces more than it declares")
    if len(made) != size:
        raise BadPack("a delta produces less than it declares")
    return bytes(made)


def _copy(delta: bytes, code: int, at: int) -> tuple[int, int, int]:
    """Return the offset and the length of a copy, and where the delta continues."""
    values = [0] * 7  # four bytes of the offset, three of the length
    for bit in range(7):
        if code >> bit & 1:
            if at >= len(delta):
                raise BadPack("a delta ends early")
            values[bit], at = delta[at], at + 1
    return int.from_bytes(values[:4], "little"), int.from_bytes(values[4:], "little") or _COPY_ALL, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift <= 56:  # noqa: PLR2004 - no object has 2**63 bytes
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7
    raise BadPack("a delta ends early")
