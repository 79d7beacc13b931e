"""Which source serves which scheme; the only module of this package that callers need besides the port."""

from collections.abc import Callable

from shared.errors import InvalidURI
from shared.sources.port import Credentials, Source
from shared.sources.settings import SourceSettings, default_hosts
from shared.uri import ModelUri

__all__ = ["SERVED_SCHEMES", "default_hosts", "open_source"]

Factory = Callable[[ModelUri, Credentials, SourceSettings], Source]


def _open_hf(uri: ModelUri, credentials: Credentials, settings: SourceSettings) -> Source:
    from shared.sources.hf import HfSource  # noqa: PLC0415 - a source is loaded when first used

    return HfSource(uri, credentials, settings)


def _open_s3(uri: ModelUri, credentials: Credentials, settings: SourceSettings) -> Source:
    from shared.sources.s3 import S3Source  # noqa: PLC0415 - a source is loaded when first used

    return S3Source(uri, credentials, settings)


def _open_https(uri: ModelUri, credentials: Credentials, settings: SourceSettings) -> Source:
    from shared.sources.https import HttpsSource  # noqa: PLC0415 - a source is loaded when first used

    return HttpsSource(uri, credentials, settings)


_FACTORIES: dict[str, Factory] = {"hf": _open_hf, "s3": _open_s3, "https": _open_https}
SERVED_SCHEMES = tuple(_FACTORIES)


def open_source(uri: ModelUri, credentials: Credentials, settings: SourceSettings) -> Source:
    """Return the source of a URI without contacting it; InvalidURI where none serves the scheme."""
    scheme = str(uri).partition("://")[0]
    factory = _FACTORIES.get(scheme)
    if factory is None:
        raise InvalidURI(f"{uri}: no source fetches {scheme}://; write one of {', '.join(SERVED_SCHEMES)}")
    return factory(uri, credentials, settings)
