"""The administrator's list of sources that namespaced models may name, matched against the parsed URI."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from shared.sources.cloud_hosts import AWS_HOSTS, AZURE_HOSTS, ORACLE_HOSTS, ORACLE_S3_HOSTS
from shared.sources.host_grants import host_matches
from shared.uri.artifact import ArtifactUri
from shared.uri.buckets import S3Uri
from shared.uri.git import GitUri
from shared.uri.model_uri import HfUri, HttpsUri, ModelUri, PvcUri

_EVERYTHING = "*"
_HTTPS_PORT = 443
_LABEL = r"[^\s,*?#%\\@:./]+"
_PATTERN = re.compile(
    rf"(?!https://)[a-z][a-z0-9+.-]*://[^\s,*?#%\\]*|https://((?:(?:\*|{_LABEL})\.)*{_LABEL}(?:[:/][^\s,*?#%\\@]*)?)?"
)
_MAX_SHOWN = 12


@dataclass(frozen=True, slots=True)
class AllowedSources:
    """Patterns such as `hf://`, `hf://org`, `s3://bucket/prefix`, `https://*.example.org`, or `*` for everything.

    A bare scheme matches all of its sources. Anything after it matches whole components up to a `/`: an organisation, a
    repository (with a revision or tag, only that one), a bucket, a prefix, a host with its port. A leading `*.` in the
    host of an https URL matches one or more labels, any other `*` exactly one.
    """

    patterns: tuple[str, ...]

    def allows(self, uri: ModelUri) -> bool:
        """Return whether a namespaced model may name this source; `pvc://`, which names its own namespace, always."""
        return isinstance(uri, PvcUri) or any(_matches(uri, pattern) for pattern in self.patterns)

    def refusal_of(self, uri: ModelUri) -> str:
        """Return why the source is refused, with what is allowed, or an empty string if it is allowed."""
        if self.allows(uri):
            return ""
        more = len(self.patterns) - _MAX_SHOWN
        shown = (*self.patterns[:_MAX_SHOWN], *((f"{more} more",) if more > 0 else ()))
        return (
            f"{uri} is not among the sources that namespaced models may use: "
            f"{', '.join((*shown, 'pvc:// for a claim in the same namespace'))}; use one of those, or ask an "
            "administrator to add it to allowedSources in the chart or to create a ClusterBaseModel"
        )


EVERY_SOURCE = AllowedSources((_EVERYTHING,))
PUBLIC_SOURCES = AllowedSources(
    (
        "hf://",
        "s3://",
        "gs://",
        "az://",
        "oci://n",  # object storage only, no registries
        "https://huggingface.co",
        "https://storage.googleapis.com",
        "https://*.storage.googleapis.com",
        *(f"https://{host}" for host in (*AZURE_HOSTS, *ORACLE_HOSTS, *ORACLE_S3_HOSTS, *AWS_HOSTS)),
    )
)


def parse_allowed(text: str) -> AllowedSources:
    """Parse a comma-separated list of patterns. Raises ValueError."""
    patterns = tuple(part.strip() for part in text.split(",") if part.strip())
    for pattern in patterns:
        if pattern != _EVERYTHING and not _PATTERN.fullmatch(pattern):
            raise ValueError(
                f"{pattern!r} is not a valid source pattern; examples are hf://, hf://org, s3://bucket/prefix, "
                "https://host and https://*.example.org"
            )
        if pattern.startswith("https://"):
            _ = urlsplit(pattern).port  # raises ValueError for an invalid port
    return AllowedSources(patterns)


def _matches(uri: ModelUri, pattern: str) -> bool:
    if pattern == _EVERYTHING:
        return True
    scheme, _, named = pattern.partition("://")
    if not str(uri).startswith(f"{scheme}://"):
        return False
    named = named.rstrip("/")
    if isinstance(uri, HttpsUri):
        return not named or _matches_url(urlsplit(uri.url), urlsplit(pattern))
    return any(_is_below(name, named) for name in _names_of(uri))


def _names_of(uri: ModelUri) -> Iterator[str]:
    """Yield the forms in which a pattern may name a source: without optional parts, and as written."""
    match uri:
        case HfUri():
            yield uri.repo
        case S3Uri():
            yield f"{uri.bucket}/{uri.prefix}".rstrip("/")
        case GitUri():
            yield uri.place
        case ArtifactUri():
            yield f"{uri.registry}/{uri.repository}"
        case _:
            pass
    yield str(uri).partition("://")[2]


def _matches_url(url: SplitResult, pattern: SplitResult) -> bool:
    if (url.port or _HTTPS_PORT) != (pattern.port or _HTTPS_PORT):
        return False
    if not host_matches(url.hostname or "", (pattern.hostname or "",)):
        return False
    wanted = pattern.path.strip("/")
    path = unquote(url.path).replace("\\", "/")
    has_dot_segments = any(part.partition(";")[0] in (".", "..") for part in path.split("/"))
    return not wanted or (not has_dot_segments and _is_below(path.lstrip("/"), wanted))


def _is_below(path: str, named: str) -> bool:
    """Return whether a path equals `named`, or continues it after a `/`."""
    return not named or path == named or path.startswith(named + "/")
