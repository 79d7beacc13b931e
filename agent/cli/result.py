"""What `larder fetch` says when it has succeeded."""

from pathlib import Path

import msgspec

from agent.cli.job import Outcome
from shared.api.meta import LeftOut
from shared.quantity import format_bytes


def text_report(outcome: Outcome, to: Path, left_out: LeftOut) -> str:
    """Return one line for a person."""
    manifest = outcome.manifest
    left = f", {left_out.files} files with {format_bytes(left_out.size)} left out" if left_out.files else ""
    return (
        f"{to}: {len(manifest.files)} files, {format_bytes(manifest.size_bytes)} of {manifest.uri}, "
        f"{format_bytes(outcome.moved)} fetched, verified by {outcome.verified}{left}"
    )


def json_report(outcome: Outcome, to: Path, left_out: LeftOut) -> str:
    """Return one object for a program; sizes are in bytes, `leftOut` is as in a model's status."""
    manifest = outcome.manifest
    told = {
        "directory": str(to),
        "uri": manifest.uri,
        "revision": manifest.revision,
        "files": len(manifest.files),
        "size": manifest.size_bytes,
        "fetched": outcome.moved,
        "verified": outcome.verified,
        "leftOut": left_out,
    }
    return msgspec.json.encode(told).decode()
