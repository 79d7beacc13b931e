"""The source for `s3://`: an object, or everything below a prefix, listed by boto3 and fetched by our own requests."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus
from itertools import takewhile

import msgspec

from shared.errors import InvalidURI, LarderError
from shared.http.client import HttpClient, Response
from shared.http.ranges import open_range
from shared.manifest import File, Manifest, build_manifest
from shared.sources.credential_hints import S3
from shared.sources.failures import RequestSubject
from shared.sources.listing_limits import LONGEST_LIST_S, in_time
from shared.sources.port import Body, Credentials
from shared.sources.prefix_keys import PrefixKeys, beginning_of, choose_files, last_name
from shared.sources.s3.endpoint import named_endpoint
from shared.sources.s3.errors import decide_s3_failure, error_fields
from shared.sources.s3.multipart import MultipartDigest, digest_by_parts, multipart_digest, part_length
from shared.sources.s3.objects import file_of
from shared.sources.s3.requests import S3Requests
from shared.sources.settings import SourceSettings
from shared.uri.buckets import S3Uri
from shared.uri.model_uri import ModelUri

_HEADS_AT_ONCE, _MAX_HEADS_A_TASK = 16, 50
_REGION_HEADER = "x-amz-bucket-region"
_NOT_NOW = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


class S3Source:
    """The objects of one URI."""

    def __init__(
        self,
        uri: ModelUri,
        credentials: Credentials,
        settings: SourceSettings,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(uri, S3Uri):
            raise InvalidURI(f"{uri} is not an s3:// URI")
        region = uri.region or credentials.values.get("AWS_REGION") or settings.s3_region
        self._uri, self._now = uri, now
        self._requests = S3Requests(uri.bucket, region, credentials, settings, uri.endpoint)
        self._client = HttpClient(replace(settings, ca_bundle=settings.s3_ca_bundle or settings.ca_bundle))
        self._keys = PrefixKeys(uri.prefix)

    def resolve(self) -> Manifest:
        """List the object that the URI names exactly, else all objects below it; never its siblings.

        Digests are those that S3 keeps: checksums or ETags, of the whole object or else of its parts.
        """
        if not self._uri.endpoint:  # not pinned yet: ask the endpoint that the Secret names
            asked = self._requests
            self._requests = replace(asked, pinned=named_endpoint(asked.credentials.values, asked.settings))
        headers = self._head_exact()
        exact = self._file_of(last_name(self._uri.prefix), self._uri.prefix, headers) if headers is not None else None
        files = choose_files(self._uri, exact, self._files_below)
        return build_manifest(str(self._pinned()), "", files)

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open a part of an object, provided that it is still the listed one."""
        return self._keys.open(file.path, lambda key: self._open_key(key, file, offset, length))

    def close(self) -> None:
        """Close all kept connections."""
        self._client.close()

    def _head_exact(self) -> Mapping[str, str] | None:
        """Return the headers of the object that the URI names; None if it is missing or not visible.

        If the URI names no object, the request is for the bucket itself, which may be in another region.
        """
        response = self._head(self._uri.prefix)
        region = response.headers.get(_REGION_HEADER, "")
        if response.status != HTTPStatus.OK and region not in ("", self._requests.region):
            self._requests = replace(self._requests, region=region)
            response = self._head(self._uri.prefix)
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise self._failure(response, str(self._uri))
        # A refused HEAD has no body that explains it; the listing that follows is refused with one.
        return response.headers if response.status == HTTPStatus.OK and self._uri.prefix else None

    def _files_below(self) -> list[File]:
        from shared.sources.s3.listing import S3Refusal, list_paths  # noqa: PLC0415 - heavy; controller only

        until_s, halt = time.monotonic() + LONGEST_LIST_S, threading.Event()
        try:
            paths = list_paths(self._uri, self._requests, self._client, until_s)
        except S3Refusal as refusal:
            subject = self._subject(str(self._uri))
            raise decide_s3_failure(refusal.status, refusal.headers, refusal.fields, subject, self._now()) from None
        count = min(_MAX_HEADS_A_TASK, len(paths) // _HEADS_AT_ONCE + 1)  # one task per object takes longer
        parts = [in_time(paths[i : i + count], until_s, str(self._uri)) for i in range(0, len(paths), count)]
        with ThreadPoolExecutor(_HEADS_AT_ONCE, "s3-head") as threads:
            described = threads.map(lambda part: self._describe_all(part, halt), parts)
            return [file for part in described for file in part]

    def _describe_all(self, paths: Iterable[str], halt: threading.Event) -> list[File]:
        """Return all files, or only some if another task has failed, which sets `halt` and raises its own error."""
        try:
            return [self._describe(path) for path in takewhile(lambda _: not halt.is_set(), paths)]
        except BaseException:
            halt.set()
            raise

    def _describe(self, path: str) -> File:
        key = f"{beginning_of(self._uri.prefix)}{path}"
        response = self._head(key)
        if response.status != HTTPStatus.OK:
            raise self._failure(response, f"s3://{self._uri.bucket}/{key}")
        return self._file_of(path, key, response.headers)

    def _file_of(self, path: str, key: str, headers: Mapping[str, str]) -> File:
        """Return the file of an object; asks for its parts if there is no digest of the whole."""
        file = file_of(path, headers)
        found = None if file.digest else multipart_digest(headers)
        if found is None:
            return file
        digest = digest_by_parts(found, file.size, lambda number: self._part_length(key, file, found, number))
        return msgspec.structs.replace(file, digest=digest)

    def _part_length(self, key: str, file: File, found: MultipartDigest, number: int) -> int:
        """Return the bytes of one part, 0 if the store does not say; raises if it asks for a pause."""
        match = {"If-Match": file.etag} if file.etag else {}
        response = self._client.send(self._requests.build_request("HEAD", key, match, f"partNumber={number}"))
        response.close()
        if response.status in _NOT_NOW:  # otherwise chance would decide which digest the bytes are checked against
            raise self._failure(response, f"s3://{self._uri.bucket}/{key}")
        return part_length(found, response.status, response.headers)

    def _head(self, key: str) -> Response:
        response = self._client.send(self._requests.build_request("HEAD", key, {"x-amz-checksum-mode": "ENABLED"}))
        response.close()
        return response

    def _pinned(self) -> S3Uri:
        """Return the URI with the real region of the bucket and the endpoint of the Secret, for agents to use at once.

        The same name at another endpoint is another model.
        """
        if self._requests.settings.s3_endpoint:
            return self._uri
        return S3Uri(self._uri.bucket, self._uri.prefix, self._requests.region, self._requests.named)

    def _open_key(self, key: str, file: File, offset: int, length: int | None) -> Body:
        request = self._requests.build_request("GET", key, {"If-Match": file.etag} if file.etag else {})
        what = f"s3://{self._uri.bucket}/{key}"
        return open_range(
            self._client, request, file, offset, length, failure=lambda response: self._failure(response, what)
        )

    def _failure(self, response: Response, what: str) -> LarderError:
        fields = error_fields(response.read_small())
        return decide_s3_failure(response.status, response.headers, fields, self._subject(what), self._now())

    def _subject(self, what: str) -> RequestSubject:
        return RequestSubject(what, S3, self._requests.grant)
