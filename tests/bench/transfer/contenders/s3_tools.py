"""Command line tools that speak S3."""

from tests.bench.transfer.contenders.contender import NOTHING, Contender, Job, Way
from tests.bench.transfer.loads import OWNER
from tests.bench.transfer.measure import Command


def _s5cmd(job: Job) -> Command:
    source = f"s3://{OWNER}/{job.load.name}/*"
    argv = [job.program("s5cmd"), "--log", "error", "--numworkers", str(job.load.connections)]
    env = job.site.s3_environ()
    return Command([*argv, "--endpoint-url", env["AWS_ENDPOINT_URL"], "cp", source, f"{job.target}/"], env)


def _rclone(job: Job) -> Command:
    env = job.site.s3_environ()
    argv = [job.program("rclone"), "copy", "--config", "", "--s3-provider", "Other", "--s3-env-auth"]
    argv += ["--s3-endpoint", env["AWS_ENDPOINT_URL"], f":s3:{OWNER}/{job.load.name}", str(job.target)]
    return Command([*argv, "--transfers", str(job.load.connections), "--checkers", str(job.load.connections)], env)


CONTENDERS = (
    Contender("s5cmd", Way.S3, NOTHING, ("s5cmd",), _s5cmd),
    Contender("rclone, S3", Way.S3, "MD5 (ETag)", ("rclone",), _rclone),
)
