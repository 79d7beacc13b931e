"""Messages about files that nodes do not fetch."""

from shared.api.meta import LeftOut
from shared.quantity import format_bytes

_SHOWN = 3


def left_out_message(left: LeftOut, most_names: int = _SHOWN) -> str:
    """Return how many files of the source are left out, the bytes saved, and the largest of the files."""
    copies = f" ({format_bytes(left.duplicate_size)} in second copies of weights)" if left.duplicate_size else ""
    more = ", ..." if left.files > most_names else ""
    names = ", ".join(left.names[:most_names])
    return (
        f"{left.files} files of the source are left out, which saves {format_bytes(left.size)}{copies}: {names}{more}"
    )
