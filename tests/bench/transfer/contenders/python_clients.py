"""Python libraries, each by the shortest program that its documentation suggests."""

from tests.bench.transfer.contenders.contender import NOTHING, Contender, Job, Way
from tests.bench.transfer.loads import OWNER
from tests.bench.transfer.measure import Command
from tests.bench.transfer.tools import HERE


def _boto3(job: Job) -> Command:
    return _client(job, "boto3", "boto3_download.py", OWNER, job.load.name)


def _awscrt(job: Job) -> Command:
    return _client(job, "awscrt", "awscrt_download.py", OWNER, job.load.name)


def _obstore_s3(job: Job) -> Command:
    return _client(job, "obstore", "obstore_download.py", f"s3://{OWNER}/{job.load.name}")


def _obstore_http(job: Job) -> Command:
    return _client(job, "obstore", "obstore_download.py", job.http_url())


def _client(job: Job, module: str, script: str, *arguments: str) -> Command:
    listed = job.write_list(job.load.paths)
    argv = [job.program(module), str(HERE / "clients" / script), *arguments, str(job.target)]
    return Command([*argv, str(job.load.connections)], job.site.s3_environ(), listed)


CONTENDERS = (
    Contender("boto3", Way.S3, NOTHING, ("boto3",), _boto3),
    Contender("boto3, awscrt", Way.S3, NOTHING, ("boto3", "awscrt"), _awscrt),
    Contender("obstore, S3", Way.S3, NOTHING, ("obstore",), _obstore_s3),
    Contender("obstore, http", Way.HTTP, NOTHING, ("obstore",), _obstore_http),
)
