"""`cap`: how well the rate limit holds, by the bytes that the kernel saw the client write."""

import sys
from pathlib import Path

from rig.progress import Notify
from tests.bench.transfer.loads import OWNER, Load
from tests.bench.transfer.report import Section
from tests.bench.transfer.sampling import Samples, watch, written_bytes
from tests.bench.transfer.site import Site
from tests.bench.transfer.tools import HERE, Tools

_WINDOW_S = 5.0
_STEP_S = 0.1
_EDGE_BYTES = 2**20  # within this much of either end, the fetch is starting or ending
_MAX_MODELS = 4


def measure_cap(work: Path, tools: Tools, rate_mib: int, seconds: int, notify: Notify) -> Section:
    """Fetch one model and then four under a limit, and return the section `cap`."""
    rate = rate_mib * 2**20
    lines = [
        "## Rate limit",
        "",
        f"Share of a limit of {rate_mib} MiB/s that arrived in any {_WINDOW_S:.0f} s (target: within 5 %).",
        "",
        "| models | min | max |",
        "|---|---|---|",
    ]
    for models in (1, _MAX_MODELS):
        loads = [Load(f"cap-{models}-{n}", 2, rate * seconds // models // 2, 4, ".safetensors") for n in range(models)]
        with Site(work / f"site-{models}", loads, tools.programs["nginx"]) as site:
            argv = [sys.executable, str(HERE / "clients" / "capped_fetch.py"), str(rate), str(work / f"store-{models}")]
            env = {"HF_ENDPOINT": site.url, "LARDER_ALLOW_ADDRESSES": site.host}
            uris = [f"hf://{OWNER}/{load.name}" for load in loads]
            samples = watch([*argv, *uris], env, work / "cap.log", written_bytes)
        least, most = extremes(samples, rate)
        notify(f"cap: {models} models: {least:.3f} to {most:.3f} of the limit in any {_WINDOW_S:.0f} s")
        lines.append(f"| {models} | {least:.3f} | {most:.3f} |")
    return Section("cap", "\n".join(lines))


def extremes(samples: Samples, rate: float) -> tuple[float, float]:
    """Return the minimum and the maximum rate of any window within the download, as shares of the limit."""
    total = samples.points[-1][1]
    inside = [moment for moment, value in samples.points if _EDGE_BYTES < value < total - _EDGE_BYTES]
    shares = []
    moment = inside[0]
    while moment + _WINDOW_S <= inside[-1]:
        shares.append((samples.at(moment + _WINDOW_S) - samples.at(moment)) / (rate * _WINDOW_S))
        moment += _STEP_S
    return min(shares), max(shares)
