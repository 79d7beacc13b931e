"""An object, or everything below a prefix, of an S3 bucket: listed by boto3, fetched by signed requests of our own."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus
from itertools import takewhile

import msgspec

from shared.errors import InvalidURI, LarderError
from shared.http.client import HttpClient, Reply
from shared.http.ranges import open_range
from shared.manifest import File, Manifest, build_manifest
from shared.sources.credential_hints import S3
from shared.sources.failures import RequestSubject
from shared.sources.listing import LONGEST_LIST_S, in_time
from shared.sources.port import Body, Credentials
from shared.sources.prefix_keys import PrefixKeys, beginning_of, choose_files, last_name
from shared.sources.s3.endpoint import named_endpoint
from shared.sources.s3.errors import decide_s3_failure, error_fields
from shared.sources.s3.multipart import OfParts, digest_by_parts, of_parts, part_length
from shared.sources.s3.objects import file_of
from shared.sources.s3.requests import Requests
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import ModelUri, S3Uri

_HEADS_AT_ONCE, _MOST_HEADS_A_TASK = 16, 50
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
        self._requests = Requests(uri.bucket, region, credentials, settings, uri.endpoint)
        self._client = HttpClient(replace(settings, ca_bundle=settings.s3_ca_bundle or settings.ca_bundle))
        self._keys = PrefixKeys(uri.prefix)

    def resolve(self) -> Manifest:
        """List the objects: the one that the URI names exactly, else all below it, never those beside it.

        Digests are those that S3 vouches for: checksums or ETags, of the whole or else of the parts.
        """
        if not self._uri.endpoint:  # nothing is bound to an endpoint yet: where the Secret leads is asked
            asked = self._requests
            self._requests = replace(asked, pinned=named_endpoint(asked.credentials.values, asked.settings))
        headers = self._head_exact()
        exact = self._file_of(last_name(self._uri.prefix), self._uri.prefix, headers) if headers is not None else None
        files = choose_files(self._uri, exact, self._files_below)
        return build_manifest(str(self._pinned()), "", files)

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open a part of an object, if it still is the listed one."""
        return self._keys.open(file.path, lambda key: self._open_key(key, file, offset, length))

    def close(self) -> None:
        """Close the connections that are kept."""
        self._client.close()

    def _head_exact(self) -> Mapping[str, str] | None:
        """Return the headers of the object that the URI names; None where it is not there or not ours to see.

        The bucket itself is asked where the URI names no object: it may be in another region.
        """
        reply = self._head(self._uri.prefix)
        region = reply.headers.get(_REGION_HEADER, "")
        if reply.status != HTTPStatus.OK and region not in ("", self._requests.region):
            self._requests = replace(self._requests, region=region)
            reply = self._head(self._uri.prefix)
        if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise self._failure(reply, str(self._uri))
        # A HEAD that is refused has no body to say why; the listing that follows is refused with one.
        return reply.headers if reply.status == HTTPStatus.OK and self._uri.prefix else None

    def _files_below(self) -> list[File]:
        from shared.sources.s3.listing import S3Refusal, list_paths  # noqa: PLC0415 - heavy; controller only

        until_s, halt = time.monotonic() + LONGEST_LIST_S, threading.Event()
        try:
            paths = list_paths(self._uri, self._requests, self._client, until_s)
        except S3Refusal as refusal:
            subject = self._subject(str(self._uri))
            raise decide_s3_failure(refusal.status, refusal.headers, refusal.fields, subject, self._now()) from None
        count = min(_MOST_HEADS_A_TASK, len(paths) // _HEADS_AT_ONCE + 1)  # a task for each takes longer
        parts = [in_time(paths[i : i + count], until_s, str(self._uri)) for i in range(0, len(paths), count)]
        with ThreadPoolExecutor(_HEADS_AT_ONCE, "s3-head") as threads:
            described = threads.map(lambda part: self._describe_all(part, halt), parts)
            return [file for part in described for file in part]

    def _describe_all(self, paths: Iterable[str], halt: threading.Event) -> list[File]:
        """Return the files, fewer of them only where another one's failure set `halt`: that is raised there."""
        try:
            return [self._describe(path) for path in takewhile(lambda _: not halt.is_set(), paths)]
        except BaseException:
            halt.set()
            raise

    def _describe(self, path: str) -> File:
        key = f"{beginning_of(self._uri.prefix)}{path}"
        reply = self._head(key)
        if reply.status != HTTPStatus.OK:
            raise self._failure(reply, f"s3://{self._uri.bucket}/{key}")
        return self._file_of(path, key, reply.headers)

    def _file_of(self, path: str, key: str, headers: Mapping[str, str]) -> File:
        """Return the file of an object; where nothing vouches for the whole, its parts are asked for."""
        file = file_of(path, headers)
        found = None if file.digest else of_parts(headers)
        if found is None:
            return file
        digest = digest_by_parts(found, file.size, lambda number: self._part_length(key, file, found, number))
        return msgspec.structs.replace(file, digest=digest)

    def _part_length(self, key: str, file: File, found: OfParts, number: int) -> int:
        """Return the bytes of one part, 0 where the store does not tell them; raises where it asks for time."""
        match = {"If-Match": file.etag} if file.etag else {}
        reply = self._client.send(self._requests.call("HEAD", key, match, f"partNumber={number}"))
        reply.close()
        if reply.status in _NOT_NOW:  # else chance would decide what the bytes are checked against
            raise self._failure(reply, f"s3://{self._uri.bucket}/{key}")
        return part_length(found, reply.status, reply.headers)

    def _head(self, key: str) -> Reply:
        reply = self._client.send(self._requests.call("HEAD", key, {"x-amz-checksum-mode": "ENABLED"}))
        reply.close()
        return reply

    def _pinned(self) -> S3Uri:
        """Return the URI with the bucket's real region, so that an agent signs for it at once, and a Secret's endpoint.

        What another endpoint calls by the same name is another model, whose bytes are never taken for these.
        """
        if self._requests.settings.s3_endpoint:
            return self._uri
        return S3Uri(self._uri.bucket, self._uri.prefix, self._requests.region, self._requests.named)

    def _open_key(self, key: str, file: File, offset: int, length: int | None) -> Body:
        call = self._requests.call("GET", key, {"If-Match": file.etag} if file.etag else {})
        what = f"s3://{self._uri.bucket}/{key}"
        return open_range(self._client, call, file, offset, length, failure=lambda reply: self._failure(reply, what))

    def _failure(self, reply: Reply, what: str) -> LarderError:
        fields = error_fields(reply.read_small())
        return decide_s3_failure(reply.status, reply.headers, fields, self._subject(what), self._now())

    def _subject(self, what: str) -> RequestSubject:
        return RequestSubject(what, S3, self._requests.grant)
