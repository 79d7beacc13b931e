"""The hub's own client, over plain HTTP, into a directory."""

import shlex

from tests.bench.transfer.contenders.contender import DIGEST, NOTHING, Contender, Job, Way
from tests.bench.transfer.loads import OWNER
from tests.bench.transfer.measure import Command


def _environ(job: Job) -> dict[str, str]:
    off = (
        "HF_HUB_DISABLE_XET",
        "HF_HUB_DISABLE_UPDATE_CHECK",
        "HF_HUB_DISABLE_TELEMETRY",
        "HF_HUB_DISABLE_PROGRESS_BARS",
    )
    return {"HF_ENDPOINT": job.site.url, "HF_HOME": str(job.scratch / "hf-home"), **dict.fromkeys(off, "1")}


def _download(job: Job) -> list[str]:
    return [job.program("hf"), "download", f"{OWNER}/{job.load.name}", "--local-dir", str(job.target)]


def _plain(job: Job) -> Command:
    return Command(_download(job), _environ(job))


def _verified(job: Job) -> Command:
    verify = [job.program("hf"), "cache", "verify", f"{OWNER}/{job.load.name}", "--local-dir", str(job.target)]
    both = f"{shlex.join(_download(job))} && {shlex.join([*verify, '--fail-on-missing-files'])}"
    return Command(["/bin/sh", "-c", both], _environ(job))


CONTENDERS = (
    Contender("hf download", Way.HUB, NOTHING, ("hf",), _plain),
    Contender("hf download, hf cache verify", Way.HUB, DIGEST, ("hf",), _verified),
)
