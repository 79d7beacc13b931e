"""The programs of a node, found in the same places as the other programs of the rig."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rig import binaries
from rig.errors import MissingBinaries


@dataclass(frozen=True)
class NodeBinaries:
    """The path of each program."""

    kubelet: Path
    kube_proxy: Path
    containerd: Path
    containerd_shim: Path
    ctr: Path
    coredns: Path


def find(env: Mapping[str, str]) -> NodeBinaries:
    """Return the programs; raises MissingBinaries, which says how to get them."""
    found = [binaries.locate(binary, env) for binary in binaries.NODE]
    absent = [binary.name for binary, path in zip(binaries.NODE, found, strict=True) if path is None]
    if absent:
        raise MissingBinaries(f"{', '.join(absent)} not found; run: .venv/bin/python -m rig node setup")
    return NodeBinaries(*(path for path in found if path is not None))
