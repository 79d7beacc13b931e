"""An artifact in a container registry; each layer is a file or an archive, addressed by its SHA-256."""

import hashlib
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Literal

import msgspec

from shared.decode_errors import DECODE_ERRORS
from shared.errors import InvalidURI, RevisionNotFound, SourceNotFound, Unreachable, UnsafePath
from shared.http.client import HttpClient, Request
from shared.http.origins import origin_of
from shared.http.ranges import open_range
from shared.manifest import File, Manifest, build_manifest
from shared.sources.port import Body, Credentials
from shared.sources.registry.auth import RegistryAuth
from shared.sources.settings import SourceSettings
from shared.uri.artifact import ArtifactUri
from shared.uri.model_uri import ModelUri

_DOCKER_HUB, _DOCKER_HUB_API = "docker.io", "registry-1.docker.io"
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_EMPTY = "application/vnd.oci.empty.v1+json"
_NAMES = ("org.cncf.model.filepath", "org.cnai.model.filepath", "org.opencontainers.image.title")
_PACKED = re.compile(r"application/vnd\.(?:cncf|cnai)\.model\.[^+]*\.tar(?:\+(.*))?")
_FORMATS = {None: "tar", "gzip": "tar.gz"}
_UNPACK = "io.deis.oras.content.unpack"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LONGEST_MANIFEST_BYTES = 4 * 1024 * 1024  # the limit of registries themselves


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """How a manifest describes a blob, or an index a manifest."""

    digest: str
    size: int
    media_type: str | None = ""
    annotations: dict[str, str | None] | None = None

    @property
    def kind(self) -> str:
        """The media type without its parameters, in lower case."""
        return (self.media_type or "").partition(";")[0].strip().lower()


class ArtifactManifest(msgspec.Struct, frozen=True, rename="camel"):
    """Either a manifest or an index."""

    layers: tuple[Descriptor, ...] | None = ()
    manifests: tuple[Descriptor, ...] | None = ()


class ArtifactSource:
    """The layers of one artifact; a tag is resolved once and pinned to its digest."""

    shares_rights: Literal[True] = True

    def __init__(self, uri: ModelUri, credentials: Credentials, settings: SourceSettings) -> None:
        if not isinstance(uri, ArtifactUri):
            raise InvalidURI(f"{uri} is not the URI of an artifact")
        self._uri = uri
        base, self._repository = _registry_url(uri, settings)
        self._base = f"{base}/v2/{self._repository}"
        self._client = HttpClient(settings)
        self._auth = RegistryAuth(uri, origin_of(base), self._repository, credentials, self._client)

    def resolve(self) -> Manifest:
        """List the layers; an index is followed if it has a single manifest."""
        digest, manifest = self._manifest(self._uri.reference)
        pinned = ArtifactUri(self._uri.registry, self._uri.repository, digest)
        if manifest.manifests:
            if len(manifest.manifests) > 1:
                raise InvalidURI(
                    f"{self._uri} is an index of {len(manifest.manifests)} manifests; name one of them by its digest"
                )
            _, manifest = self._manifest(_validated(manifest.manifests[0], pinned).digest)
        files = decide_files(manifest, self._uri)
        if not files:
            raise SourceNotFound(f"{self._uri} has no layer that is a file; push the files of the model as layers")
        return build_manifest(str(pinned), digest.removeprefix("sha256:"), files)

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open part of a layer, which is addressed by its digest alone."""
        if not _DIGEST.fullmatch(file.digest):
            raise SourceNotFound(f"{self._uri} has no file {file.path!r}; resolve it again")
        url, what = f"{self._base}/blobs/{file.digest}", f"{self._uri}, file {file.path!r},"

        def act(headers: dict[str, str]) -> Body:
            request = Request(url, secrets=headers)
            return open_range(
                self._client,
                request,
                file,
                offset,
                length,
                failure=lambda response: self._auth.failure_of(response, what),
            )

        return self._auth.run(act)

    def close(self) -> None:
        """Close the pooled connections."""
        self._client.close()

    def _manifest(self, reference: str) -> tuple[str, ArtifactManifest]:
        """Return the digest and content of a manifest, verified if the reference is a digest."""
        body = self._auth.run(lambda headers: self._fetch(reference, headers))
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if ":" in reference and digest != reference:
            raise Unreachable(
                f"{self._uri}: the registry sent a manifest other than {reference}; the request is repeated"
            )
        try:
            return digest, msgspec.json.decode(body, type=ArtifactManifest)
        except msgspec.ValidationError as error:
            raise InvalidURI(f"{self._uri}: its manifest is invalid ({error}); push it again") from error
        except DECODE_ERRORS as error:
            raise Unreachable(f"{self._uri}: the response of the registry is not a manifest ({error})") from error

    def _fetch(self, reference: str, headers: dict[str, str]) -> bytes:
        accept = {"Accept": ", ".join((*_MANIFESTS, *_INDEXES))}
        response = self._client.send(Request(f"{self._base}/manifests/{reference}", headers=accept, secrets=headers))
        if response.status == HTTPStatus.OK:
            return response.read_all(_LONGEST_MANIFEST_BYTES)
        body = response.read_small()
        response.close()
        if b"MANIFEST_UNKNOWN" in body and self._has_repository(headers):
            raise RevisionNotFound(f"{self._uri.registry} has no {self._uri}; name an existing tag or digest")
        raise self._auth.failure_of(response, str(self._uri))

    def _has_repository(self, headers: dict[str, str]) -> bool:
        """Return whether the repository exists; for an unknown one, some registries report an unknown manifest."""
        response = self._client.send(Request(f"{self._base}/tags/list?n=1", secrets=headers))
        response.read_small()
        response.close()
        return response.status != HTTPStatus.NOT_FOUND


def decide_files(manifest: ArtifactManifest, uri: ArtifactUri) -> list[File]:
    """Return the files of a manifest, with packed layers as archives.

    Raises InvalidURI for a layer that is neither a file nor an archive, and UnsafePath if two have the same path.
    """
    layers = [layer for layer in manifest.layers or () if layer.kind != _EMPTY]
    files = [_file_of(_validated(layer, uri), uri) for layer in layers]
    named: dict[str, File] = {}
    for file in files:
        if (other := named.setdefault(file.path, file)) is not file:
            raise UnsafePath(
                f"{uri} has two layers for {file.path!r}, {other.digest} and {file.digest}; push it with one of them"
            )
    return files


def _validated(found: Descriptor, uri: ArtifactUri) -> Descriptor:
    if not _DIGEST.fullmatch(found.digest) or found.size < 0:
        raise InvalidURI(f"{uri} has a layer with an invalid digest ({found.digest[:80]!r}) or size; push it again")
    return found


def _file_of(layer: Descriptor, uri: ArtifactUri) -> File:
    annotations = layer.annotations or {}
    path = _plain_path(next((path for name in _NAMES if (path := annotations.get(name))), ""))
    if archive_format := _archive_format(layer, annotations, uri):
        return File(_archive_name(path, layer.digest), layer.size, layer.digest, archive=archive_format)
    if not path:
        raise InvalidURI(
            f"{uri} has a layer without a file name ({layer.media_type or 'no type'}, {layer.digest}), like an image "
            "of a container; push files with org.opencontainers.image.title, or as a ModelPack"
        )
    return File(path, layer.size, layer.digest)


def _archive_format(layer: Descriptor, annotations: Mapping[str, str | None], uri: ArtifactUri) -> str:
    """Return the archive format of a layer, whose files have their own paths, or an empty string for a plain file."""
    if annotations.get(_UNPACK) == "true":
        return "tar.gz"  # how oras packs directories, whatever the media type says
    if not (found := _PACKED.fullmatch(layer.kind)):
        return ""
    if found[1] not in _FORMATS:
        raise InvalidURI(
            f"{uri} has a layer compressed with {found[1]} ({layer.media_type}, {layer.digest}), which is not "
            "supported; push it as raw files, as a tar, or compressed with gzip"
        )
    return _FORMATS[found[1]]


def _plain_path(path: str) -> str:
    """Return the path without any leading `./`."""
    while path.startswith("./"):
        path = path.removeprefix("./").lstrip("/")
    return path


def _archive_name(path: str, digest: str) -> str:
    """Return the name of an archive: the file or directory it was made from, or its digest if it has no name."""
    name = path.rstrip("/")
    return f"layer-{digest.removeprefix('sha256:')[:12]}" if name in ("", ".") else name


def _registry_url(uri: ArtifactUri, settings: SourceSettings) -> tuple[str, str]:
    """Return the URL of the registry and the full name of the repository there."""
    if uri.registry == _DOCKER_HUB:
        return f"https://{_DOCKER_HUB_API}", uri.repository if "/" in uri.repository else f"library/{uri.repository}"
    configured = {origin_of(registry).netloc: registry for registry in settings.registries}
    return configured.get(uri.registry, f"https://{uri.registry}"), uri.repository
