"""`larder extract --root DIR --path SUB-PATH`: run by a metadata Job on a claim."""

import argparse
import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from shared.errors import AuthDenied, LarderError, SourceNotFound, UnsafePath
from shared.metadata.files import DirectoryFiles, ModelFiles, remark_on
from shared.metadata.reader import read_metadata
from shared.metadata.reading.termination_message import UNFINISHED, Reading, encode_reading
from shared.sources.local.beneath import Beneath

_RETRY = 1  # the Job's next attempt may succeed
_CLAIM = "the claim"
_MAX_REMARK = 512  # characters, which leaves space for the metadata


def main(arguments: Sequence[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="larder extract", description="Read the metadata of a model on a mounted claim and write it to a file."
    )
    parser.add_argument(
        "--root", metavar="DIR", default="/claim", help="directory where the claim is mounted (default: /claim)"
    )
    parser.add_argument("--path", metavar="SUB-PATH", required=True, help="the model's directory or file on the claim")
    parser.add_argument(
        "--to",
        metavar="FILE",
        type=Path,
        default=Path("/dev/termination-log"),
        help="file for the result (default: /dev/termination-log)",
    )
    options = parser.parse_args(arguments)
    return run_extract(options.root, options.path, options.to, sys.stdout)


def run_extract(root: str, path: str, to: Path, stdout: TextIO) -> int:
    """Write the result to a file and, for humans, to `stdout`; return 0, or 1 if another attempt may find more.

    Reading may exceed the Job's memory or time, so it is recorded first that the sub-path exists.
    """
    early = Reading(reason=UNFINISHED, message=f"{path!r} is on the claim, but reading it has not finished")
    reading, retry = read_claim(root, path, lambda: to.write_bytes(encode_reading(early)))
    body = encode_reading(reading)
    to.write_bytes(body)
    print(body.decode(), file=stdout)
    return _RETRY if retry else 0


def read_claim(root: str, path: str, on_found: Callable[[], object] = lambda: None) -> tuple[Reading, bool]:
    """Return a model's metadata, or why it cannot be read, and whether another attempt may help.

    `on_found` is called if the sub-path exists, before anything is read. Links are followed as pods follow them: on the
    way to the directory they must stay below the claim, and inside it below the directory, because pods see only that
    directory.
    """
    try:
        descriptor = Beneath(root, _CLAIM, lambda name: f"{name!r} on {_CLAIM}").open(path)
    except SourceNotFound:
        message = f"there is no {path!r} on the claim; correct the sub-path of storageUri, or copy the model there"
        return Reading(found=False, reason="PathNotFound", message=message), False
    except UnsafePath as error:
        return Reading(found=False, reason=error.reason, message=str(error)), False
    except LarderError as error:
        return _failed(error), error.retryable
    try:
        on_found()
        files = _files(root, path, descriptor)
        return Reading(metadata=read_metadata(files), message=remark_on(files)[:_MAX_REMARK]), False
    except LarderError as error:
        return _failed(error), error.retryable
    finally:
        os.close(descriptor)


def _files(root: str, path: str, descriptor: int) -> ModelFiles:
    """Return the files by their names on the claim: the mount path in the Job's pod means nothing to users."""
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        # Read what was opened, even if its name now refers to something else.
        return DirectoryFiles(f"/proc/self/fd/{descriptor}", shown=path, place=path)
    folder, _, name = path.rpartition("/")
    return DirectoryFiles(root, folder, only=name, shown=path, place=_CLAIM)


def _failed(error: LarderError) -> Reading:
    if isinstance(error, AuthDenied):
        return Reading(
            reason="Unreadable",
            message=f"{error}; make the files readable for user {os.getuid()}, for example by chmod -R o+rX",
        )
    return Reading(reason=error.reason, message=str(error))
