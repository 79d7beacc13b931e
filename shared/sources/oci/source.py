"""The source for objects in OCI Object Storage: one object, or everything below a prefix, of a bucket."""

import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from operator import attrgetter
from typing import Annotated

import msgspec

from shared.decode_errors import DECODE_ERRORS
from shared.errors import InvalidURI, LarderError, Unreachable
from shared.http.client import HttpClient, Response
from shared.http.ranges import open_range
from shared.manifest import File, Manifest, build_manifest
from shared.sources.checksums import base64_digest
from shared.sources.credential_hints import OCI_OBJECTS
from shared.sources.failures import RequestSubject, failure_of
from shared.sources.listing_limits import bounded_names, bounded_pages
from shared.sources.oci.requests import OciRequests
from shared.sources.port import Body, Credentials
from shared.sources.prefix_keys import PrefixKeys, beginning_of, choose_files, last_name, path_below, size_of
from shared.sources.settings import SourceSettings
from shared.uri.buckets import OciObjectsUri
from shared.uri.model_uri import ModelUri

_FIELDS = "name,size,md5,etag"
_LONGEST_PAGE_BYTES = 16 * 1024 * 1024


class OciObject(msgspec.Struct, frozen=True):
    """An object as listed; one uploaded in parts has no MD5."""

    name: str
    size: Annotated[int, msgspec.Meta(ge=0, lt=2**62)] | None = None
    md5: str | None = None
    etag: str | None = None


class _Page(msgspec.Struct, frozen=True, rename="camel"):
    objects: tuple[OciObject, ...] = ()
    next_start_with: str | None = None


class OciObjectsSource:
    """The objects of one URI."""

    def __init__(
        self,
        uri: ModelUri,
        credentials: Credentials,
        settings: SourceSettings,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(uri, OciObjectsUri):
            raise InvalidURI(f"{uri} is not the URI of a bucket in OCI Object Storage")
        self._uri, self._now = uri, now
        self._requests = OciRequests(uri, credentials, settings, now)
        self._client = HttpClient(settings)
        self._keys = PrefixKeys(uri.prefix)

    def resolve(self) -> Manifest:
        """List the object that the URI names exactly, else all objects below it; never its siblings."""
        found = self._head(self._uri.prefix) if self._uri.prefix else None
        exact = _file_of(last_name(self._uri.prefix), found) if found else None
        return build_manifest(str(self._uri), "", choose_files(self._uri, exact, self._files_below))

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open a part of an object, provided that it is still the listed one."""
        return self._keys.open(file.path, lambda key: self._open_key(key, file, offset, length))

    def close(self) -> None:
        """Close all kept connections."""
        self._client.close()

    def _head(self, key: str) -> OciObject | None:
        """Return an object from its headers; None if it is missing or not visible."""
        response = self._client.send(self._requests.build_request("HEAD", key, {}, {}))
        response.close()
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise self._failure(response, str(self._uri))
        if response.status != HTTPStatus.OK:
            return None
        headers = response.headers
        return OciObject(key, size_of(headers, key), headers.get("Content-MD5"), headers.get("ETag"))

    def _files_below(self) -> Iterator[File]:
        pages = bounded_pages(self._pages(beginning_of(self._uri.prefix)), str(self._uri))
        objects = (found for page in pages for found in page.objects)
        for found in bounded_names(objects, attrgetter("name"), str(self._uri)):
            if (path := path_below(self._uri.prefix, found.name, found.size or 0)) is not None:
                yield _file_of(path, found)

    def _pages(self, prefix: str) -> Iterator[_Page]:
        start = ""
        while True:
            query = {"prefix": prefix, "fields": _FIELDS, "start": start}
            response = self._client.send(self._requests.build_request("GET", "", query, {}))
            if response.status != HTTPStatus.OK:
                response.read_small()
                response.close()
                raise self._failure(response, str(self._uri))
            body = response.read_all(_LONGEST_PAGE_BYTES)
            try:
                page = msgspec.json.decode(body, type=_Page)
            except DECODE_ERRORS as error:
                raise Unreachable(
                    f"{response.host} sent a listing that is not valid for OCI Object Storage: {error}; check the "
                    "endpoint"
                ) from error
            yield page
            start = page.next_start_with or ""
            if not start:
                return

    def _open_key(self, key: str, file: File, offset: int, length: int | None) -> Body:
        request = self._requests.build_request("GET", key, {}, {"If-Match": file.etag} if file.etag else {})
        what = f"oci://n/{self._uri.namespace}/b/{self._uri.bucket}/o/{key}"
        return open_range(
            self._client, request, file, offset, length, failure=lambda response: self._failure(response, what)
        )

    def _failure(self, response: Response, what: str) -> LarderError:
        subject = RequestSubject(what, OCI_OBJECTS, self._requests.grant)
        return failure_of(response.status, response.headers, subject, self._now())


def _file_of(path: str, found: OciObject) -> File:
    return File(path, found.size or 0, base64_digest("md5", found.md5 or ""), found.etag or "")
