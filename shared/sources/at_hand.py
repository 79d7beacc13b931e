"""A source as the commands of a person ask it: with his own credentials, and an end within a minute."""

from collections.abc import Callable, Mapping

from shared.errors import InvalidURI, Unreachable
from shared.sources.own_credentials import credentials_from_environ
from shared.sources.port import Credentials, Source
from shared.sources.registry import open_source
from shared.sources.retry import RetryPolicy
from shared.sources.settings import SourceSettings, settings_from_environ
from shared.uri import ModelUri, parse_uri

OpenSource = Callable[[ModelUri, Credentials, SourceSettings], Source]
POLICY = RetryPolicy(attempts=6, patience_s=40.0, first_s=0.5, longest_s=5.0)
HOPELESS_S = 45.0
LOOK_S = 0.2


def open_at_hand(uri: str, environ: Mapping[str, str], opener: OpenSource = open_source) -> Source:
    """Return the source with what the environment says of endpoints and credentials. Raises InvalidURI."""
    try:
        settings = settings_from_environ(environ)
    except ValueError as error:
        raise InvalidURI(str(error)) from error
    return opener(parse_uri(uri), credentials_from_environ(environ, settings), settings)


def no_answer() -> Unreachable:
    """Return why a person is kept waiting no longer, where nothing else is known."""
    return Unreachable(f"the source did not answer for {HOPELESS_S:.0f} seconds; try again later")
