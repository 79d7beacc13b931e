"""Progress output for people."""

from typing import TextIO

from agent.transfer.progress import Progress
from shared.exit_codes import failure_line
from shared.quantity import format_bytes

_TERMINAL_S, _LOG_S = 0.5, 5.0


class ProgressLine:
    """Rewrites one line on a terminal; prints a line every few seconds elsewhere."""

    def __init__(self, out: TextIO, *, quiet: bool) -> None:
        self._out, self._quiet, self._terminal = out, quiet, out.isatty()
        self._last: float | None = None
        self._shown = False

    def show(self, progress: Progress, now: float) -> None:
        """Show the progress if it is due; once the output can no longer be read, print nothing more."""
        every_s = _TERMINAL_S if self._terminal else _LOG_S
        self._last = now if self._last is None else self._last
        if self._quiet or now - self._last < every_s:
            return
        self._last, self._shown = now, True
        start, end = ("\r", "\x1b[K") if self._terminal else ("", "\n")
        self._write(f"{start}{_line(progress)}{end}")

    def end(self) -> None:
        """Finish the current line."""
        if self._terminal and self._shown:
            self._write("\n")

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):
            self._quiet = True


def _line(progress: Progress) -> str:
    done = "listing files"
    if progress.total:
        share = 100 * progress.done // progress.total
        done = f"{share:3d} %  {format_bytes(progress.done)} of {format_bytes(progress.total)}"
    if progress.failure:
        return f"{done}, retrying: {failure_line(progress.failure)}"
    return f"{done}, {format_bytes(round(progress.rate()))}/s" if progress.total else done
