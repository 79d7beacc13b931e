from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from shared.sources.port import Credentials, Source
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

OpenWith = Callable[[str, Credentials, SourceSettings], Source]


@pytest.fixture
def open_with() -> Iterator[OpenWith]:
    """Open a source, to be closed when the test ends."""
    with ExitStack() as stack:

        def open_one(uri: str, credentials: Credentials, settings: SourceSettings) -> Source:
            source = open_source(parse_uri(uri), credentials, settings)
            stack.callback(source.close)
            return source

        yield open_one
