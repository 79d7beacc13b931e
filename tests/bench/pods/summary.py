"""The summary of the started pods for the report."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from rig.binaries import CONTAINERD_VERSION, KUBERNETES_VERSION
from tests.bench.transfer.machine import where

_REQUIREMENTS = Path(__file__).parent / "initializer" / "requirements.txt"
_PACKAGE = "kserve-storage=="
_TEXT = """\
## From the creation of a pod to its model

Seconds from sending a pod to the API server until its container writes that it has found the model,
by the clock of containerd. The cluster has one real node (kubelet, containerd, runc) with Larder
installed by its chart. The node has the images and the models. The S3 server runs on the same
machine, with its files in the page cache. All pods run the same shell. They start one at a time, in
random order in each of {n} rounds after a warm-up, and each is gone before the next.

- *no model*: what API server, scheduler, kubelet and runtime need for any pod. Kubelet looks every
  0.3 s whether volumes are mounted, so a pod with any volume, even an emptyDir, needs longer.
- *claim*: the default. Another pod of the namespace uses the model, so the claim exists. For the
  first pod of a namespace, volume and claim are created and bound first.
- *storage-initializer*: KServe's own package copies the model from S3 to an emptyDir, with KServe's
  default limits of 1 CPU and 1 GiB.

{machine}

{table}

p50 and p99 are of {n} pods each, by nearest rank{caution}.\
"""
_HEAD = "| pod | p50 s | p99 s | min to max | p50 beyond no model |\n|---|---|---|---|---|"
_ENOUGH = 100


def summarize(taken: Mapping[str, Sequence[float]], work: Path) -> str:
    """Return the section's text; the first pods are those without a model."""
    floor_s = quantile(next(iter(taken.values())), 0.5)
    n = len(next(iter(taken.values())))
    lines = [_HEAD, *(_line(name, sorted(seconds), floor_s) for name, seconds in taken.items())]
    caution = "" if n >= _ENOUGH else f"; with fewer than {_ENOUGH} pods p99 is the maximum"
    versions = f"Kubernetes {KUBERNETES_VERSION}, containerd {CONTAINERD_VERSION}, kserve-storage {_version()}"
    return _TEXT.format(n=n, machine=f"{where(work)}\n- {versions}", table="\n".join(lines), caution=caution)


def quantile(seconds: Sequence[float], q: float) -> float:
    """Return a quantile by nearest rank."""
    return sorted(seconds)[max(0, math.ceil(q * len(seconds)) - 1)]


def _line(name: str, seconds: Sequence[float], floor_s: float) -> str:
    p50, p99 = quantile(seconds, 0.5), quantile(seconds, 0.99)
    return f"| {name} | {p50:.2f} | {p99:.2f} | {seconds[0]:.2f} to {seconds[-1]:.2f} | {p50 - floor_s:+.2f} |"


def _version() -> str:
    lines = _REQUIREMENTS.read_text().splitlines()
    return next(line.removeprefix(_PACKAGE).split()[0] for line in lines if line.startswith(_PACKAGE))
