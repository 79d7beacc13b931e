"""Invalid descriptions of objects."""

from collections.abc import Callable

import pytest

from rig.scripted_http import Answer, ScriptedServer, reply
from shared.errors import Unreachable
from shared.sources.gcs.source import GcsSource
from shared.sources.port import ANONYMOUS
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

BODIES = [
    b"<html>",
    b"[]",
    b'{"name": "\xff"}',
    b'{"size": "1"}',
    b'{"name": "a", "size": "-5"}',
    b'{"name": "a", "size": "%s"}' % (b"9" * 30),
    b'{"name": "a", "x": ' + b"[" * 100_000,
]


@pytest.mark.parametrize("body", BODIES)
def test_an_invalid_object_description_is_reported(serve: Callable[[Answer], ScriptedServer], body: bytes) -> None:
    source = GcsSource(
        parse_uri("gs://bucket/a"), ANONYMOUS, SourceSettings(gcs_endpoint=serve(lambda _: reply(200, body)).url)
    )
    with pytest.raises(Unreachable, match="Google Cloud Storage"):
        source.resolve()
    source.close()
