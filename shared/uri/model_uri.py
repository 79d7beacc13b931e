"""Parses the URIs of models, prints them in one canonical form, and matches them at path boundaries."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import parse_qsl, urlsplit

from shared.errors import InvalidURI
from shared.source_plugins import plugin_schemes
from shared.uri.artifact import ArtifactUri, parse_artifact
from shared.uri.buckets import (
    AzureUri,
    GcsUri,
    OciObjectsUri,
    S3Uri,
    azure_of_url,
    is_oci_objects,
    parse_azure,
    parse_gcs,
    parse_oci_objects,
    parse_s3,
    without_dots,
)
from shared.uri.git import GitUri, parse_git

FETCHED_SCHEMES = ("hf", "s3", "gs", "az", "oci", "https", "git+https", "local")
KNOWN_SCHEMES = (*FETCHED_SCHEMES, "pvc")

_REPO = re.compile(r"^[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*$", re.ASCII)
_SECRET_PARAMETER = re.compile(r"sig|token|secret|credential|password|api_?key|accesskey", re.IGNORECASE)
_DNS_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")


@dataclass(frozen=True, slots=True)
class HfUri:
    """A repository of a Hugging Face hub at a branch, tag or commit."""

    repo: str
    revision: str = "main"

    @property
    def cache_directory(self) -> str:
        """The name of the repository's directory in the cache of `huggingface_hub`."""
        return f"models--{self.repo.replace('/', '--')}"

    def __str__(self) -> str:
        return f"hf://{self.repo}@{self.revision}"


@dataclass(frozen=True, slots=True)
class HttpsUri:
    """One file behind a URL."""

    url: str

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, slots=True)
class PvcUri:
    """A directory on a claim; an empty `namespace` means that of the model."""

    namespace: str
    claim: str
    sub_path: str

    def __str__(self) -> str:
        namespace = f"{self.namespace}/" if self.namespace else ""
        return f"pvc://{namespace}{self.claim}/{self.sub_path}"


@dataclass(frozen=True, slots=True)
class LocalUri:
    """A file or directory that is already on the machine; the path is absolute, without a trailing slash."""

    path: str

    def __str__(self) -> str:
        return f"local://{self.path}"


@dataclass(frozen=True, slots=True)
class PluginUri:
    """A URI of a plugin; `rest` is everything after `://`."""

    scheme: str
    rest: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.rest}"


ModelUri: TypeAlias = (
    HfUri | S3Uri | GcsUri | AzureUri | OciObjectsUri | ArtifactUri | HttpsUri | GitUri | LocalUri | PvcUri | PluginUri
)


def parse_uri(text: str, *, cluster_scoped: bool = True) -> ModelUri:
    """Parse a URI; raises InvalidURI, which says what to write. Only `pvc://` depends on the scope."""
    scheme, separator, rest = text.partition("://")
    if not separator or any(ord(c) < ord(" ") or ord(c) == 127 for c in text):  # noqa: PLR2004 - DEL
        raise InvalidURI(
            f"{text!r} is not a URI; write for example hf://org/model, s3://bucket/prefix or https://host/file"
        )
    if scheme == "pvc":
        return _parse_pvc(rest, cluster_scoped=cluster_scoped)
    if parser := _PARSERS.get(scheme):
        return parser(rest)
    if scheme in plugin_schemes() and rest.strip("/"):
        return PluginUri(scheme, without_dots(rest.rstrip("/"), text))
    known = ", ".join(f"{s}://" for s in (*KNOWN_SCHEMES, *plugin_schemes()))
    raise InvalidURI(f"no installed source serves {scheme}:// ({text}); write one of {known}")


def parse_declared(text: str, *, cluster_scoped: bool = True) -> ModelUri:
    """Parse a URI written by a user; forms that are only valid in our own manifests raise InvalidURI."""
    uri = parse_uri(text, cluster_scoped=cluster_scoped)
    if isinstance(uri, S3Uri) and uri.endpoint:
        raise InvalidURI(
            f"{text} names an endpoint; write s3://BUCKET/PREFIX, and set AWS_ENDPOINT_URL in the Secret of the model "
            "or, for a command, in the environment"
        )
    return uri


def _parse_hf(rest: str) -> HfUri:
    parts = rest.rstrip("/").split("/", 1)
    tail = parts[1] if len(parts) > 1 else ""
    cut = min((i for i in (tail.find("@"), tail.find(":")) if i >= 0), default=len(tail))
    repo, revision = f"{parts[0]}/{tail[:cut]}", tail[cut + 1 :]
    if not _REPO.match(repo) or ".." in repo or (cut < len(tail) and not _is_revision(revision)):
        raise InvalidURI(
            f"hf://{rest} is not a repository; write hf://ORG/REPO, hf://ORG/REPO@REVISION or hf://ORG/REPO:REVISION"
        )
    return HfUri(repo, revision or "main")


def _is_revision(text: str) -> bool:
    return bool(re.match(r"^[\w./+-]{1,200}$", text, re.ASCII)) and ".." not in text and not text.startswith(("/", "-"))


def _parse_https(rest: str) -> HttpsUri | AzureUri:
    text = f"https://{rest}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise InvalidURI(f"{text}: {error}; write https://HOST[:PORT]/PATH/FILE") from error
    if not parts.hostname or "@" in parts.netloc or parts.fragment or not parts.path.strip("/") or port == 0:
        shown = f"https://{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise InvalidURI(f"{shown} has no file, or has a user or a fragment; write https://HOST[:PORT]/PATH/FILE")
    if secret := next((k for k, _ in parse_qsl(parts.query) if _SECRET_PARAMETER.search(k)), None):
        raise InvalidURI(
            f"https://{parts.hostname}{parts.path} has the secret parameter {secret!r}, which every reader of the "
            "object would see; put credentials into a Secret or, for a command, into the environment"
        )
    return azure_of_url(text) or HttpsUri(text.rstrip("/"))


def _parse_oci(rest: str) -> OciObjectsUri | ArtifactUri:
    return parse_oci_objects(rest) if is_oci_objects(rest) else parse_artifact(rest)


def _parse_pvc(rest: str, *, cluster_scoped: bool) -> PvcUri:
    form = "pvc://NAMESPACE/CLAIM/SUB-PATH" if cluster_scoped else "pvc://CLAIM/SUB-PATH"
    head, _, tail = rest.partition("/")
    namespace, claim, path = "", head, tail
    if cluster_scoped and ":" in head:
        namespace, _, claim = head.partition(":")
    elif cluster_scoped:
        namespace = head
        claim, _, path = tail.partition("/")
    named = ([namespace] if cluster_scoped else []) + [claim]
    sub_path = path.rstrip("/")
    bad_path = not sub_path or sub_path.startswith("/") or any(p in ("", ".", "..") for p in sub_path.split("/"))
    if bad_path or not all(_DNS_LABEL.match(n) for n in named):
        scope = "" if cluster_scoped else "; the claim must be in the namespace of the model"
        raise InvalidURI(
            f"pvc://{rest} does not name a claim and a directory in it; write {form}, without . or .. in it{scope}"
        )
    return PvcUri(namespace, claim, sub_path)


def _parse_local(rest: str) -> LocalUri:
    path = rest.rstrip("/")
    if not path.startswith("/") or any(part in ("", ".", "..") for part in path[1:].split("/")):
        raise InvalidURI(f"local://{rest} is not an absolute path; write local:///PATH, without . or .. in it")
    return LocalUri(path)


_PARSERS: Mapping[str, Callable[[str], ModelUri]] = {
    "hf": _parse_hf,
    "s3": parse_s3,
    "gs": parse_gcs,
    "az": parse_azure,
    "oci": _parse_oci,
    "https": _parse_https,
    "git+https": parse_git,
    "local": _parse_local,
}


def sub_path_of(wanted: str, cached: str) -> str | None:
    """Return the rest of the wanted URI below the cached one: "" if equal, None if it is another model.

    Both are canonical; a prefix ends at a `/`; other revisions of a repository are other models.
    """
    if wanted == cached:
        return ""
    if cached.startswith(("hf://", "git+https://")):
        return None
    return wanted[len(cached) + 1 :] if wanted.startswith(cached + "/") else None
