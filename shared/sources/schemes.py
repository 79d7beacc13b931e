"""Maps URI schemes to sources; callers need only this module and the port."""

from collections.abc import Callable, Mapping
from importlib import import_module

from shared.errors import InvalidURI
from shared.source_plugins import installed_plugins
from shared.sources.port import Credentials, Source
from shared.sources.settings import SourceSettings
from shared.uri.artifact import ArtifactUri
from shared.uri.model_uri import ModelUri, PluginUri

OpenSource = Callable[[ModelUri, Credentials, SourceSettings], Source]

# Package and class of each source, which is imported when first used.
_SOURCES: Mapping[str, tuple[str, str]] = {
    "hf": ("hub", "HubSource"),
    "s3": ("s3", "S3Source"),
    "gs": ("gcs", "GcsSource"),
    "az": ("azure", "AzureSource"),
    "oci": ("oci", "OciObjectsSource"),
    "https": ("https", "HttpsSource"),
    "git+https": ("gitlfs", "GitRepositorySource"),
    "local": ("local", "LocalSource"),
}
_ARTIFACTS = ("registry", "ArtifactSource")
SERVED_SCHEMES = tuple(_SOURCES)


def open_source(uri: ModelUri, credentials: Credentials, settings: SourceSettings) -> Source:
    """Return the source of a URI without contacting it; raises InvalidURI if no source serves the scheme."""
    scheme = str(uri).partition("://")[0]
    if isinstance(uri, PluginUri):
        return _load_plugin(uri.scheme)(uri, credentials, settings)
    source = _ARTIFACTS if isinstance(uri, ArtifactUri) else _SOURCES.get(scheme)
    if source is None:
        raise InvalidURI(f"{uri}: no source fetches {scheme}://; write one of {', '.join(SERVED_SCHEMES)}")
    package, name = source
    factory: OpenSource = getattr(import_module(f"shared.sources.{package}.source"), name)
    return factory(uri, credentials, settings)


def _load_plugin(scheme: str) -> OpenSource:
    """Load the factory of a plugin; raises InvalidURI, naming the plugin, if that fails."""
    point = installed_plugins().get(scheme)
    if point is None:
        raise InvalidURI(f"no source for {scheme}:// is installed here; install its distribution in both images")
    try:
        factory: OpenSource = point.load()
    except Exception as error:
        distribution = point.dist.name if point.dist else "unknown"
        raise InvalidURI(
            f"the source of {scheme}:// ({point.value} of the distribution {distribution}) cannot be loaded: "
            f"{type(error).__name__}: {error}; fix or remove that distribution"
        ) from error
    return factory
