"""A source for commands at the shell: uses ambient credentials and gives up after about a minute.

A pause that a server asks for is respected, up to POLICY.rate_limit_timeout_s.
"""

from collections.abc import Mapping

from shared.errors import InvalidURI, LarderError, RateLimited, Unreachable
from shared.sources.ambient_credentials import credentials_from_environ
from shared.sources.port import Source
from shared.sources.retry import RetryPolicy
from shared.sources.schemes import OpenSource, open_source
from shared.sources.settings import settings_from_environ
from shared.uri.model_uri import parse_declared

POLICY = RetryPolicy(
    attempts=100, timeout_s=40.0, first_s=0.5, cap_s=5.0, rate_limit_timeout_s=150.0
)  # limited by time
STALL_TIMEOUT_S = 45.0
POLL_INTERVAL_S = 0.2


def open_for_command(uri: str, environ: Mapping[str, str], opener: OpenSource = open_source) -> Source:
    """Return the source, with endpoints and credentials from the environment. Raises InvalidURI, InvalidSettings."""
    if uri.startswith("pvc://"):
        raise InvalidURI(
            f"{uri}: files on a claim are not fetched but read where the claim is mounted; run `larder inspect PATH` "
            "in a pod that mounts it"
        )
    settings = settings_from_environ(environ)
    return opener(parse_declared(uri), credentials_from_environ(environ, settings), settings)


def no_answer() -> Unreachable:
    """Return the error that ends the wait if no better reason is known."""
    return Unreachable(f"the source did not answer for {STALL_TIMEOUT_S:.0f} seconds; try again later")


class StallDeadline:
    """Gives up STALL_TIMEOUT_S after the last progress or after the end of the last requested pause.

    Consecutive pauses are respected up to POLICY.rate_limit_timeout_s in total, however often the server asks.
    """

    def __init__(self, now: float) -> None:
        self._progress_at = self._paused_until = now
        self._last_pause: LarderError | None = None

    def renew(self, now: float) -> None:
        """Record progress."""
        self._progress_at, self._paused_until = now, max(now, self._paused_until)

    def note(self, error: LarderError | None, now: float) -> None:
        """Record a failure; `now` must be close to the time of the failure."""
        if isinstance(error, RateLimited) and error is not self._last_pause:
            self._last_pause = error
            self._paused_until = max(
                self._paused_until, min(now + error.after_s, self._progress_at + POLICY.rate_limit_timeout_s)
            )

    def expired(self, now: float) -> bool:
        """Return whether there was no progress for too long."""
        return now - self._paused_until >= STALL_TIMEOUT_S
