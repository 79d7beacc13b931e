"""A source for commands at the shell: uses ambient credentials and gives up after about a minute.

A server that asks for a pause gets it, up to POLICY.asked_s.
"""

from collections.abc import Callable, Mapping

from shared.errors import InvalidURI, LarderError, RateLimited, Unreachable
from shared.sources.ambient_credentials import credentials_from_environ
from shared.sources.port import Credentials, Source
from shared.sources.retry import RetryPolicy
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings, settings_from_environ
from shared.uri.model_uri import ModelUri, parse_declared

OpenSource = Callable[[ModelUri, Credentials, SourceSettings], Source]
POLICY = RetryPolicy(attempts=100, patience_s=40.0, first_s=0.5, longest_s=5.0, asked_s=150.0)  # limited by time
HOPELESS_S = 45.0
LOOK_S = 0.2


def open_for_command(uri: str, environ: Mapping[str, str], opener: OpenSource = open_source) -> Source:
    """Return the source, with endpoints and credentials from the environment. Raises InvalidURI."""
    if uri.startswith("pvc://"):
        raise InvalidURI(
            f"{uri}: a claim's files are not fetched but read where the claim is mounted; in a pod that mounts it, use "
            "them there, or call `larder inspect PATH` with their path below the mount"
        )
    try:
        settings = settings_from_environ(environ)
    except ValueError as error:
        raise InvalidURI(str(error)) from error
    return opener(parse_declared(uri), credentials_from_environ(environ, settings), settings)


def no_answer() -> Unreachable:
    """Return the error that ends the wait if no better reason is known."""
    return Unreachable(f"the source did not answer for {HOPELESS_S:.0f} seconds; try again later")


class StallDeadline:
    """Gives up HOPELESS_S after the last progress or after the end of the last pause that was asked for.

    Pauses in a row are granted up to POLICY.asked_s in total, however often the server asks.
    """

    def __init__(self, now: float) -> None:
        self._came = self._until = now
        self._asked: LarderError | None = None

    def renew(self, now: float) -> None:
        """Record progress."""
        self._came, self._until = now, max(now, self._until)

    def note(self, trouble: LarderError | None, now: float) -> None:
        """Record an obstacle; `now` must be close to its beginning."""
        if isinstance(trouble, RateLimited) and trouble is not self._asked:
            self._asked = trouble
            self._until = max(self._until, min(now + trouble.after_s, self._came + POLICY.asked_s))

    def is_lost(self, now: float) -> bool:
        """Return whether there was no progress for too long."""
        return now - self._until >= HOPELESS_S
