"""The limit on open files."""

import resource


def raise_open_files_limit() -> None:
    """Let this process open as many files as it may; container runtimes often start it with a limit of 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
