"""JSON log lines on stderr: a constant event, and keys with values."""

import logging
import sys
from typing import Literal, TextIO, TypeAlias

import structlog

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
# The variables of a failed frame may hold tokens and passwords.
_TRACEBACKS = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to the current stderr, which may have been replaced since this handler was created."""

    @property
    def stream(self) -> TextIO:
        """The current stderr."""
        return sys.stderr

    @stream.setter
    def stream(self, _: TextIO) -> None:
        """Ignore the stream that the base class sets."""


def configure_logging(level: LogLevel = "info") -> None:
    """Send our events from this level on, and warnings of libraries, to stderr as one JSON object per line.

    Libraries never log below the level of warnings, because some log URLs, which may be signed.
    """
    least = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.ExceptionRenderer(_TRACEBACKS),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # the current stderr
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        processor=structlog.processors.JSONRenderer(),
        foreign_pre_chain=[structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True)],
    )
    handler = _Stderr()
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=max(least, logging.WARNING), force=True)
