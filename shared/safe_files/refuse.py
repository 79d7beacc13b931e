"""The check on files before they become a model: refuses any that may be a pickle."""

from collections.abc import Mapping
from pathlib import Path

from shared.errors import PickleRefused, StoreFailure
from shared.safe_files.file_kinds import why_unsafe


def refuse_pickles(files: Mapping[str, Path], uri: str) -> None:
    """Check each file of a model, given the path of its bytes by name. Raises PickleRefused, StoreFailure."""
    for name, path in files.items():
        try:
            with path.open("rb") as opened:
                why = why_unsafe(name, opened, path.stat().st_size)
        except OSError as error:
            raise StoreFailure(f"{path}, the file {name!r}, cannot be read: {error.strerror}") from error
        if why:
            raise PickleRefused(
                f"{name!r} of {uri} {why}: loading it may run code, and only files that cannot be pickles are allowed "
                "(allowPickle: false); exclude it with ignorePatterns if the weights are also there as safetensors, or "
                "allow pickles"
            )
