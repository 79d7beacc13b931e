# ruff: noqa: INP001 - a module of its own distribution
"""The source for `model-registry://MODEL/VERSION`: asks a Kubeflow Model Registry where the files are.

The variable MODEL_REGISTRY_URL has the address of the registry. The artifact of the version says where the files are,
as a URI that Larder knows; that source does the rest.
"""

import os
from http import HTTPStatus
from threading import Lock
from typing import Any
from urllib.parse import urlencode

import msgspec

from shared.errors import InvalidURI, SourceNotFound, Unreachable
from shared.http.client import HttpClient, Request
from shared.manifest import File, Manifest
from shared.sources.port import Body, Credentials, Source
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import PluginUri, parse_uri

_API = "/api/model_registry/v1alpha3"
_LONGEST_ANSWER_BYTES = 1024 * 1024


class ModelRegistrySource:
    """The artifact of one version of a registered model."""

    def __init__(self, uri: PluginUri, credentials: Credentials, settings: SourceSettings) -> None:
        self._uri, self._credentials, self._settings = uri, credentials, settings
        self._model, _, self._version = uri.rest.partition("/")
        self._url = os.environ.get("MODEL_REGISTRY_URL", "").rstrip("/")
        if not self._model or not self._version or "/" in self._version:
            raise InvalidURI(f"{uri} is not a version of a model; write model-registry://MODEL/VERSION")
        if not self._url:
            raise InvalidURI(f"{uri}: set MODEL_REGISTRY_URL to the address of the registry")
        self._client = HttpClient(settings)
        self._lock = Lock()
        self._source: Source | None = None

    def resolve(self) -> Manifest:
        """Ask the registry where the files are, and list them there."""
        return self._artifact().resolve()

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open a part of a file where the artifact is."""
        return self._artifact().open(file, offset, length)

    def close(self) -> None:
        """Close all kept connections."""
        self._client.close()
        if self._source is not None:
            self._source.close()

    def _artifact(self) -> Source:
        """Return the source of the files; the registry is asked once."""
        with self._lock:
            if self._source is None:
                model = self._get("/registered_model", name=self._model)
                version = self._get("/model_version", name=self._version, parentResourceId=str(model["id"]))
                artifacts = self._get(f"/model_versions/{version['id']}/artifacts").get("items") or []
                places = [found["uri"] for found in artifacts if found.get("uri")]
                if not places:
                    raise SourceNotFound(f"{self._uri}: this version has no artifact with a URI; register one")
                self._source = open_source(parse_uri(places[0]), self._credentials, self._settings)
            return self._source

    def _get(self, path: str, **query: str) -> dict[str, Any]:
        response = self._client.send(Request(f"{self._url}{_API}{path}?{urlencode(query)}"))
        body = response.read_all(_LONGEST_ANSWER_BYTES)
        if response.status == HTTPStatus.NOT_FOUND:
            raise SourceNotFound(f"{self._uri}: the registry has no {path} {query}; check the name")
        if response.status != HTTPStatus.OK:
            raise Unreachable(f"{self._uri}: the registry answered {response.status} to {path}; try again")
        found: dict[str, Any] = msgspec.json.decode(body)
        return found
