"""Messages about files that nodes do not fetch."""

from shared.api.meta import LeftOut
from shared.quantity import format_bytes

_SHOWN = 3


def left_out_message(left: LeftOut, max_names: int = _SHOWN) -> str:
    """Return how many files of the source are left out, the bytes saved, and the largest of the files."""
    copies = f" ({format_bytes(left.duplicate_size)} in duplicate weights)" if left.duplicate_size else ""
    more = ", ..." if left.files > max_names else ""
    names = ", ".join(left.names[:max_names])
    saved = f"{format_bytes(left.size)}{copies}"
    return f"{left.files} files of the source are not downloaded, which saves {saved}: {names}{more}"
