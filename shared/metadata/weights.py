"""Selects the weights among the files of a model: one set, even if a repository has several."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

_SHARD = re.compile(r"^(?P<stem>.*?)-(?P<number>\d{5,6})-of-(?P<of>\d{5,6})$")
_PART = re.compile(r"^(?P<stem>consolidated)\.\d\d$")  # the name of a part in the style of Meta
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")
_NOT_WEIGHTS = ("training_args", "optimizer", "scheduler", "rng_state", "scaler")
_FORMATS = ("safetensors", "gguf", "pytorch", "onnx")
_MAX_SHARDS = 2_000
_USUAL, _CONSOLIDATED, _OTHER = range(3)  # ranks of names


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights: the format (empty without weights), the sorted files to read, and their size in bytes.

    `whole` is whether all parts that the names announce are present; `index` is the path of the shard index.
    """

    format: str = ""
    files: tuple[str, ...] = ()
    size_bytes: int = 0
    whole: bool = True

    @property
    def index(self) -> str:
        """The path of the shard index, by the name of the first file; empty if it is not a shard."""
        folder, slash, name = self.files[0].rpartition("/") if self.files else ("", "", "")
        shard = _SHARD.match(name.rpartition(".")[0])
        return f"{folder}{slash}{shard['stem']}.{name.rpartition('.')[2]}.index.json" if shard else ""


def select_weights(sizes: Mapping[str, int], *, pipeline: tuple[str, ...] = ()) -> Weights:
    """Return the weights of a model, or those in the folders of a pipeline.

    Among several sets in a folder, one with a usual name such as `model` wins, then `consolidated`, then the first by
    name. Safetensors files that all have other names, such as `model.fp16`, count as one set.
    """
    for kind in _FORMATS:
        by_folder: defaultdict[str, list[str]] = defaultdict(list)
        for path in sizes:
            if _format_of(path) == kind:
                by_folder[path.rpartition("/")[0]].append(path)
        chosen = [path for folder in (pipeline or ("",)) for path in _one_set(by_folder.get(folder, []), kind)]
        if not chosen and not pipeline and by_folder:
            chosen = _one_set(by_folder[min(by_folder)], kind)
        if chosen:
            files = tuple(sorted(chosen))[:_MAX_SHARDS]
            return Weights(kind, files, sum(sizes[path] for path in files), _is_whole(files))
    return Weights()


def _is_whole(files: tuple[str, ...]) -> bool:
    shards = [shard for path in files if (shard := _SHARD.match(path.rpartition(".")[0]))]
    there = Counter(shard["stem"] for shard in shards)
    return all(there[shard["stem"]] == int(shard["of"]) for shard in shards)


def _format_of(path: str) -> str:
    name = path.rpartition("/")[2].lower()
    if name.endswith(".safetensors"):
        return "safetensors"
    if name.endswith(".gguf"):
        return "" if name.startswith("mmproj") else "gguf"
    if name.endswith(_PICKLES) and not name.startswith(_NOT_WEIGHTS):
        return "pytorch"
    return "onnx" if name.endswith(".onnx") else ""


def _one_set(paths: list[str], kind: str) -> list[str]:
    sets: dict[str, list[str]] = {}
    for path in sorted(paths):
        stem = path.rpartition("/")[2].rpartition(".")[0]
        shard, part = _SHARD.match(stem), _PART.match(stem)
        key = f"{shard['stem']}/{shard['of']}" if shard else part["stem"] if part else stem
        sets.setdefault(key, []).append(path)
    if not sets:
        return []
    best = min(sets, key=lambda key: (_rank(key.partition("/")[0]), key))
    if kind == "safetensors" and _rank(best.partition("/")[0]) == _OTHER:
        return [path for group in sets.values() for path in group]
    return sets[best]


def _rank(stem: str) -> int:
    if stem in ("model", "diffusion_pytorch_model", "pytorch_model", "adapter_model"):
        return _USUAL
    return _CONSOLIDATED if "consolidated" in stem else _OTHER
