"""Larder itself: `larder fetch`, with verification, which cannot be switched off."""

from tests.bench.transfer.contenders.contender import DIGEST, OURS, Contender, Job, Way
from tests.bench.transfer.loads import OWNER
from tests.bench.transfer.measure import Command


def _hub(job: Job) -> Command:
    env = {"HF_ENDPOINT": job.site.url, "LARDER_ALLOW_ADDRESSES": job.site.host}
    return Command(_fetch(job, f"hf://{OWNER}/{job.load.name}"), env)


def _s3(job: Job) -> Command:
    env = {"LARDER_ALLOW_ADDRESSES": job.site.host, **job.site.s3_environ()}
    return Command(_fetch(job, f"s3://{OWNER}/{job.load.name}"), env)


def _fetch(job: Job, uri: str) -> list[str]:
    return [job.program("larder"), "fetch", uri, "--to", str(job.target), "--quiet"]


CONTENDERS = (
    Contender("larder fetch hf://", Way.HUB, DIGEST, ("larder",), _hub, OURS),
    Contender("larder fetch s3://", Way.S3, "checksum", ("larder",), _s3, OURS),
)
