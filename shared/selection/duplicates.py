"""Finds duplicate weights, which may be left out because a complete copy in safetensors stays.

When in doubt, a file stays. A copy lies in the same folder (or in `original/` below it), has the same name or one that
frameworks treat as the same, is of the same variant (`fp16`, `non_ema`), and is about as large as what stays: half or
twice the size is another precision. GGUF and ONNX are for other programs, and never count as copies.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_SHARD = re.compile(r"^(?P<stem>.+?)-(?P<number>\d{5,6})-of-(?P<of>\d{5,6})(?P<variant>\.[^/]+)?$")
_INDEX = re.compile(r"^(?P<stem>.+?)\.(?P<format>[a-z0-9]+)\.index(?P<variant>\.[^/.]+)?\.json$")
_FILE = re.compile(r"^(?P<stem>.+)\.(?P<format>[a-z0-9]+)$")

_SAFE = "safetensors"
_ANY_NAME = ("bin", "pt", "pth", "ckpt")  # copies in these formats may have any name
_KNOWN_NAMES = ("h5", "msgpack", "ot")  # copies in these formats have names that frameworks look for
_SAME = {  # equivalent names; the part after a dot is the variant
    "model": "model",
    "pytorch_model": "model",
    "tf_model": "model",
    "flax_model": "model",
    "rust_model": "model",
    "diffusion_pytorch_model": "diffusion_model",
    "diffusion_flax_model": "diffusion_model",
}
_MAIN = ("model", "")
_ORIGINAL = "original"
_CONSOLIDATED = re.compile(r"^consolidated(\.\d+)?$")
_RATIO = 1.5  # tied weights stored twice add up to a third; another precision is a factor of two

Name = tuple[str, str]  # the name that frameworks use for the weights, and the variant


@dataclass(frozen=True, slots=True)
class _Part:
    """One weight file; `of` is 0 for a whole set, and `index` is set if it only lists the others."""

    path: str
    size: int
    name: Name
    stem: str
    format: str
    number: int = 0
    of: int = 0
    index: bool = False


def duplicate_weights(sizes: Mapping[str, int]) -> frozenset[str]:
    """Return the paths that may be left out, given sizes in bytes: each has a complete copy that stays."""
    folders: defaultdict[str, list[_Part]] = defaultdict(list)
    for path, size in sizes.items():
        folder, _, file = path.rpartition("/")
        if (part := _part(path, file, size)) is not None:
            folders[folder].append(part)
    return frozenset(path for folder in folders for path in _in_folder(folder, folders))


def _in_folder(folder: str, folders: Mapping[str, list[_Part]]) -> Iterator[str]:
    kept = _complete(folders[folder])
    others: defaultdict[tuple[Name, str], list[_Part]] = defaultdict(list)
    for part in folders[folder]:
        if part.format != _SAFE:
            others[part.name, part.format].append(part)
    for (name, _), parts in others.items():
        yield from _copies(parts, kept.get(name, 0))
    main = kept.get(_MAIN, 0)
    consolidated = [p for p in folders[folder] if _CONSOLIDATED.match(p.name[0])]
    below = f"{folder}/{_ORIGINAL}" if folder else _ORIGINAL
    for group in (consolidated, folders.get(below, [])):
        for kind in {p.format for p in group}:
            yield from _copies([p for p in group if p.format == kind], main)


def _copies(parts: list[_Part], kept_bytes: int) -> Iterator[str]:
    """Yield the parts if they are a copy of what stays."""
    weights = sum(p.size for p in parts if not p.index)
    if weights and kept_bytes <= _RATIO * weights and weights <= _RATIO * kept_bytes:
        yield from (p.path for p in parts)


def _complete(parts: list[_Part]) -> dict[Name, int]:
    """Return the bytes of the complete safetensors sets by name; the largest of several."""
    sets: defaultdict[tuple[Name, str, int], dict[int, int]] = defaultdict(dict)
    for part in parts:
        if part.format == _SAFE and not part.index and not _CONSOLIDATED.match(part.name[0]):
            sets[part.name, part.stem, part.of][part.number] = part.size
    found: dict[Name, int] = {}
    for (name, _, of), numbers in sets.items():
        if of == 0 or set(numbers) == set(range(1, of + 1)):
            found[name] = max(found.get(name, 0), sum(numbers.values()))
    return found


def _part(path: str, file: str, size: int) -> _Part | None:
    """Return what the name of a file says; None if it is not part of any weights."""
    if index := _INDEX.match(file):
        return _named(path, size, index["stem"] + (index["variant"] or ""), index["format"], index=True)
    found = _FILE.match(file)
    if not found:
        return None
    shard = _SHARD.match(found["stem"])
    if not shard:
        return _named(path, size, found["stem"], found["format"])
    stem = shard["stem"] + (shard["variant"] or "")
    return _named(path, size, stem, found["format"], number=int(shard["number"]), of=int(shard["of"]))


def _named(
    path: str, size: int, stem: str, kind: str, *, number: int = 0, of: int = 0, index: bool = False
) -> _Part | None:
    first, _, variant = stem.partition(".")
    name = (_SAME[first], variant) if first in _SAME else (stem, "")
    known = kind in (_SAFE, *_ANY_NAME) or (kind in _KNOWN_NAMES and first in _SAME)
    if (first, kind) == ("model", "bin"):  # used by CTranslate2 and others; frameworks look for pytorch_model.bin
        return None
    return _Part(path, size, name, stem, kind, number, of, index) if known else None
