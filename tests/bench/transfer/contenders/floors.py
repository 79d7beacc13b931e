"""Lower bounds of the cost: a copy on the disk, and C programs that receive, hash and write."""

import shlex
from collections.abc import Callable
from urllib.parse import urlsplit

from tests.bench.transfer.contenders.contender import FLOOR, NOTHING, Contender, Job, Way
from tests.bench.transfer.loads import OWNER
from tests.bench.transfer.measure import Command

_LINK_S = 3600


def _copy(job: Job) -> Command:
    return Command(_cp(job))


def _copy_and_hash(job: Job) -> Command:
    hashed = f"find {shlex.quote(str(job.target))} -type f -exec sha256sum {{}} +"
    return Command(["/bin/sh", "-c", f"{shlex.join(_cp(job))} && {hashed}"])


def _cp(job: Job) -> list[str]:
    return ["/bin/cp", "-r", f"{job.site.folder(job.load)}/.", str(job.target)]


def _http(synced: str) -> Callable[[Job], Command]:
    return lambda job: _floor(job, {path: job.http_url(path) for path in job.load.paths}, synced)


def _s3(job: Job) -> Command:
    assert job.site.s3 is not None  # this origin is used only if there is one
    client = job.site.s3.client()
    keys = {path: {"Bucket": OWNER, "Key": f"{job.load.name}/{path}"} for path in job.load.paths}
    urls = {p: client.generate_presigned_url("get_object", Params=key, ExpiresIn=_LINK_S) for p, key in keys.items()}
    client.close()
    return _floor(job, urls, "1")


def _floor(job: Job, urls: dict[str, str], synced: str) -> Command:
    parts = {path: urlsplit(url) for path, url in urls.items()}
    lines = [f"{url.path}{'?' if url.query else ''}{url.query}\t{job.target / path}" for path, url in parts.items()]
    server = next(iter(parts.values()))
    argv = [job.program("floor"), str(server.hostname), str(server.port), str(job.load.connections), synced]
    return Command(argv, list_file=job.write_list(lines))


CONTENDERS = (
    Contender("cp", Way.DISK, NOTHING, (), _copy),
    Contender("cp, sha256sum", Way.DISK, "hashes", (), _copy_and_hash),
    Contender("C program, no fsync", Way.HTTP, "hashes", ("floor",), _http("0")),
    Contender("C program, fsync", Way.HTTP, "hashes", ("floor",), _http("1"), FLOOR),
    Contender("C program, fsync, S3", Way.S3, "hashes", ("floor",), _s3, FLOOR),
)
