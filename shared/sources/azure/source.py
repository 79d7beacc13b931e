"""The source for `az://`: a blob, or everything below a prefix, of a container in an Azure storage account."""

import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from operator import attrgetter

from shared.errors import InvalidURI, LarderError, SourceChanged, SourceNotFound
from shared.http.client import HttpClient, Response
from shared.http.ranges import open_range, range_header
from shared.manifest import File, Manifest, build_manifest
from shared.sources.azure.listing import Blob, BlobPage, blob_of_headers, file_of, parse_page
from shared.sources.azure.requests import AzureRequests
from shared.sources.credential_hints import AZURE
from shared.sources.failures import RequestSubject, denied, failure_of
from shared.sources.listing_limits import bounded_names, bounded_pages
from shared.sources.port import Body, Credentials
from shared.sources.prefix_keys import PrefixKeys, beginning_of, choose_files, last_name, path_below
from shared.sources.settings import SourceSettings
from shared.uri.buckets import AzureUri
from shared.uri.model_uri import ModelUri

_BLOBS_A_PAGE = "1000"  # a page of 5,000 would exceed the tag limit of `plain_xml`
_LONGEST_PAGE_BYTES = 32 * 1024 * 1024
_DENIED = frozenset({"AuthenticationFailed", "NoAuthenticationInformation", "PublicAccessNotPermitted"})


class AzureSource:
    """The blobs of one URI."""

    def __init__(
        self,
        uri: ModelUri,
        credentials: Credentials,
        settings: SourceSettings,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(uri, AzureUri):
            raise InvalidURI(f"{uri} is not an az:// URI")
        self._uri, self._now = uri, now
        self._client = HttpClient(settings)
        self._requests = AzureRequests(uri.account, credentials, settings, self._client, now)
        self._keys = PrefixKeys(uri.prefix)

    def resolve(self) -> Manifest:
        """List the blob that the URI names exactly, else all blobs below it; never its siblings."""
        found = self._head(self._uri.prefix) if self._uri.prefix else None
        exact = file_of(last_name(self._uri.prefix), found) if found and not found.is_directory else None
        files = choose_files(self._uri, exact, self._files_below, place="container", thing="blob")
        return build_manifest(str(self._uri), "", files)

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open a part of a blob, provided that it is still the listed one."""
        return self._keys.open(file.path, lambda key: self._open_key(key, file, offset, length))

    def close(self) -> None:
        """Close all kept connections."""
        self._client.close()

    def _head(self, key: str) -> Blob | None:
        """Return the blob of a key; None if it is missing or not visible."""
        response = self._client.send(self._requests.build_request("HEAD", f"{self._uri.container}/{key}", {}, {}))
        response.close()
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise self._failure(response, str(self._uri))
        return blob_of_headers(key, response.headers) if response.status == HTTPStatus.OK else None

    def _files_below(self) -> Iterator[File]:
        pages = bounded_pages(self._pages(beginning_of(self._uri.prefix)), str(self._uri))
        blobs = (blob for page in pages for blob in page.blobs)
        for blob in bounded_names(blobs, attrgetter("name"), str(self._uri)):
            path = path_below(self._uri.prefix, blob.name, blob.size)
            if path is not None and not blob.is_directory:
                yield file_of(path, blob)

    def _pages(self, prefix: str) -> Iterator[BlobPage]:
        marker = ""
        while True:
            asked = {"include": "metadata", "prefix": prefix, "marker": marker, "maxresults": _BLOBS_A_PAGE}
            query = {"restype": "container", "comp": "list", **asked}
            response = self._client.send(self._requests.build_request("GET", self._uri.container, query, {}))
            if response.status != HTTPStatus.OK:
                response.read_small()
                response.close()
                raise self._failure(response, str(self._uri))
            page = parse_page(response.read_all(_LONGEST_PAGE_BYTES), response.host)
            yield page
            marker = page.next_marker
            if not marker:
                return

    def _open_key(self, key: str, file: File, offset: int, length: int | None) -> Body:
        headers = {**range_header(file, offset, length), **({"If-Match": file.etag} if file.etag else {})}
        request = self._requests.build_request("GET", f"{self._uri.container}/{key}", {}, headers)
        what = f"az://{self._uri.account}/{self._uri.container}/{key}"
        try:
            return open_range(
                self._client, request, file, offset, length, failure=lambda response: self._failure(response, what)
            )
        except SourceChanged:
            # If-Match also fails for a missing blob.
            if self._head(key) is None:
                raise SourceNotFound(f"there is no {what}; correct the URI") from None
            raise

    def _failure(self, response: Response, what: str) -> LarderError:
        subject = RequestSubject(what, AZURE, self._requests.grant)
        code = response.headers.get("x-ms-error-code", "")
        if code in _DENIED or (code.startswith("Authorization") and response.status == HTTPStatus.FORBIDDEN):
            return denied(subject, code)
        return failure_of(response.status, response.headers, subject, self._now())
