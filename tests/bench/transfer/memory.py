"""`memory`: the resident memory of a fetch over time."""

from pathlib import Path

from rig.progress import Notify
from tests.bench.transfer import chart
from tests.bench.transfer.loads import OWNER, Load
from tests.bench.transfer.report import Section
from tests.bench.transfer.sampling import resident_mb, watch
from tests.bench.transfer.site import Site
from tests.bench.transfer.tools import Tools

_TARGET_MB = 150.0


def measure_memory(work: Path, tools: Tools, load: Load, notify: Notify) -> Section:
    """Fetch a load once and return the section `memory`."""
    with Site(work / "site", [load], tools.programs["nginx"]) as site:
        argv = [str(tools.programs["larder"]), "fetch", f"hf://{OWNER}/{load.name}", "--quiet"]
        env = {"HF_ENDPOINT": site.url, "LARDER_ALLOW_ADDRESSES": site.host}
        samples = watch([*argv, "--to", str(work / "target")], env, work / "memory.log", resident_mb)
    most = max(value for _, value in samples.points)
    notify(f"memory: at most {most:.0f} MB")
    title = f"larder fetch, {load.spelled}: resident MB over time"
    name = "bench-memory.svg"
    text = (
        f"## Memory while downloading\n\n{load.spelled}: at most {most:.0f} MB resident "
        f"(target: below {_TARGET_MB:.0f}).\n\n![memory over time]({name})"
    )
    return Section("memory", text, {name: chart.line(title, samples.points, _TARGET_MB, "MB")})
