"""`larder extract --root DIR --path SUB-PATH`: what a metadata Job runs on a claim."""

import argparse
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from shared.errors import AuthDenied, LarderError, SourceNotFound, UnsafePath
from shared.handover import Reading, encode_reading
from shared.metadata.files import DirectoryFiles, ModelFiles
from shared.metadata.reader import read_metadata
from shared.sources.beneath import Beneath

_AGAIN = 1  # the Job's next try may see it


def main(arguments: Sequence[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="larder extract", description="Read a model's metadata beneath a mounted claim and hand it in."
    )
    parser.add_argument("--root", metavar="DIR", default="/claim", help="where the claim is mounted (/claim)")
    parser.add_argument("--path", metavar="SUB-PATH", required=True, help="the model's directory on it")
    parser.add_argument(
        "--to", metavar="FILE", type=Path, default=Path("/dev/termination-log"), help="(/dev/termination-log)"
    )
    options = parser.parse_args(arguments)
    return run_extract(options.root, options.path, options.to, sys.stdout)


def run_extract(root: str, path: str, to: Path, stdout: TextIO) -> int:
    """Write the reading to a file, and for people to `stdout`; return 0, or 1 where another try may bring more."""
    reading, again = read_claim(root, path)
    body = encode_reading(reading)
    to.write_bytes(body)
    print(body.decode(), file=stdout)
    return _AGAIN if again else 0


def read_claim(root: str, path: str) -> tuple[Reading, bool]:
    """Return what a model's files say, or why they cannot be read, and whether the same try may help later.

    Links are followed as pods follow them: on the way to the directory beneath the claim, and in it beneath itself,
    because pods have that directory alone.
    """
    try:
        descriptor = Beneath(root).open(path)
    except SourceNotFound:
        words = f"there is no {path!r} on the claim; correct the sub-path of storageUri, or copy the model there"
        return Reading(found=False, reason="PathNotFound", message=words), False
    except UnsafePath as error:
        return Reading(found=False, reason=error.reason, message=_on_claim(error, root, path)), False
    except LarderError as error:
        return _failed(error, _on_claim(error, root, path)), error.retryable
    try:
        return Reading(metadata=read_metadata(_files(root, path, descriptor))), False
    except LarderError as error:
        words = str(error).replace(f"{root}/{path}", path).replace(f"{_opened(descriptor)}//", f"{path}/")
        return _failed(error, words.replace(_opened(descriptor), path)), error.retryable
    finally:
        os.close(descriptor)


def _files(root: str, path: str, descriptor: int) -> ModelFiles:
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        return DirectoryFiles(_opened(descriptor))
    folder, _, name = path.rpartition("/")
    return DirectoryFiles(root, folder, only=name)


def _opened(descriptor: int) -> str:
    """Return a path to exactly what was opened, whatever stands under its name by now."""
    return f"/proc/self/fd/{descriptor}"


def _on_claim(error: LarderError, root: str, path: str) -> str:
    """Return an error's words; where the claim is mounted in the Job's pod means nothing to its owner."""
    return str(error).replace(f"{root}/{path}", f"{path!r} on the claim").replace(root, "the claim")


def _failed(error: LarderError, message: str) -> Reading:
    if isinstance(error, AuthDenied):
        return Reading(reason="Unreadable", message=f"{message} (the Job reads as user {os.getuid()}: chmod -R o+rX)")
    return Reading(reason=error.reason, message=message)
