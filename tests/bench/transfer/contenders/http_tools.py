"""Command line tools that download URLs."""

from tests.bench.transfer.contenders.contender import NOTHING, Contender, Job, Way
from tests.bench.transfer.measure import Command


def _curl(job: Job) -> Command:
    lines = [
        line for path in job.load.paths for line in (f'url = "{job.http_url(path)}"', f'output = "{job.target / path}"')
    ]
    argv = [job.program("curl"), "--silent", "--show-error", "--fail", "--parallel"]
    argv += ["--parallel-max", str(job.load.connections), "--config", str(job.write_list(lines))]
    return Command(argv)


def _aria2(job: Job) -> Command:
    listed = job.write_list([job.http_url(path) for path in job.load.paths])
    argv = [job.program("aria2c"), "--no-conf", "--quiet", f"--input-file={listed}", f"--dir={job.target}"]
    argv += [f"--max-concurrent-downloads={job.load.connections}", "--max-connection-per-server=4", "--split=4"]
    return Command([*argv, "--min-split-size=16M", "--file-allocation=none"])


def _rclone(job: Job) -> Command:
    argv = [job.program("rclone"), "copy", "--config", "", "--http-url", job.http_url(), ":http:", str(job.target)]
    return Command([*argv, "--transfers", str(job.load.connections), "--checkers", str(job.load.connections)])


CONTENDERS = (
    Contender("curl --parallel", Way.HTTP, NOTHING, ("curl",), _curl),
    Contender("aria2", Way.HTTP, NOTHING, ("aria2c",), _aria2),
    Contender("rclone, http", Way.HTTP, NOTHING, ("rclone",), _rclone),
)
