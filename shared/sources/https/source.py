"""The source for `https://`: one file, with size and entity tag or date from its headers, and no digest."""

import hashlib
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from urllib.parse import quote, unquote, urlsplit

from shared.errors import InvalidURI, LarderError, UnsafePath
from shared.http.client import HttpClient, Request, Response
from shared.http.heads import LENGTH
from shared.http.origins import origin_of, public
from shared.http.ranges import open_range, precondition, validator_of
from shared.manifest import File, Manifest, build_manifest
from shared.sources.credential_hints import HTTPS, HUB
from shared.sources.credential_keys import HUB_KEYS, keys_of
from shared.sources.failures import RequestSubject, failure_of
from shared.sources.host_grants import grant_for
from shared.sources.port import Body, Credentials
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import HttpsUri, ModelUri

_URL_SAFE = "%/:?[]@!$&'()*+,;=~"
_COMPRESSED = (".gz", ".tgz")  # for these, servers also declare the format of the file itself as an encoding
_STATES_SIZE = (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)


class HttpsSource:
    """The file of one URL; a bearer token goes only to a host that the credentials name."""

    def __init__(
        self,
        uri: ModelUri,
        credentials: Credentials,
        settings: SourceSettings,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(uri, HttpsUri):
            raise InvalidURI(f"{uri} is not an https:// URI")
        self._uri, self._now = uri, now
        self._url = _ascii_url(uri.url)
        # The token of a hub is only for the hub, whatever other hosts the credentials name.
        keys = keys_of(uri, settings.hf_endpoint)
        self._grant = grant_for(origin_of(self._url), keys, credentials, defaults=())
        self._hint = HUB if keys is HUB_KEYS and credentials.ambient else HTTPS
        self._client = HttpClient(settings)

    def resolve(self) -> Manifest:
        """Return the manifest of the file; its revision is made from size and entity tag (or date)."""
        response = self._head()
        try:
            size, validator = self._size_of(response), validator_of(response.headers)
        finally:
            response.close()
        revision = hashlib.sha256(f"{self._uri}\0{size}\0{validator}".encode()).hexdigest()[:40]
        return build_manifest(str(self._uri), revision, [File(file_name_of(self._uri.url), size, etag=validator)])

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open a part of the file, provided that it is still the resolved one."""
        request = self._build_request(precondition(file))
        return open_range(self._client, request, file, offset, length, failure=self._failure)

    def close(self) -> None:
        """Close all kept connections."""
        self._client.close()

    def _build_request(self, headers: Mapping[str, str], method: str = "GET") -> Request:
        token = next(iter(self._grant.values.values()), "")
        secrets = {"Authorization": f"Bearer {token}"} if token else {}
        return Request(self._url, method, headers=headers, secrets=secrets)

    def _head(self) -> Response:
        """Return a response that states the size: to HEAD, or to a GET of one byte if HEAD is not supported."""
        response = self._client.send(self._build_request({}, "HEAD"))
        if response.status == HTTPStatus.OK and "Content-Length" in response.headers:
            return response
        response.close()
        response = self._client.send(self._build_request({"Range": "bytes=0-0"}))
        if response.status not in _STATES_SIZE:
            response.close()
            raise self._failure(response)
        return response

    def _size_of(self, response: Response) -> int:
        total = response.headers.get("Content-Range", "").rpartition("/")[2]
        text = total if response.status != HTTPStatus.OK else response.headers.get("Content-Length", "")
        coding = response.headers.get("Content-Encoding", "identity")
        if coding.lower() != "identity" and not self._uri.url.endswith(_COMPRESSED):
            raise InvalidURI(
                f"{response.host} sent {public(self._url)} compressed ({coding[:40]!r}) although the request did not "
                "accept that; serve it as a plain file"
            )
        if not LENGTH.fullmatch(text):
            raise InvalidURI(
                f"{response.host} does not state the size of {public(self._url)} (neither Content-Length nor "
                "Content-Range); serve it as a plain file"
            )
        return int(text)

    def _failure(self, response: Response) -> LarderError:
        subject = RequestSubject(public(self._url), self._hint, self._grant.as_seen_by(origin_of(response.url)))
        return failure_of(response.status, response.headers, subject, self._now())


def file_name_of(url: str) -> str:
    """Return the file name in the last segment of the path of a URL; raises UnsafePath."""
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    if "/" in name:
        raise UnsafePath(f"{public(url)} has the file name {name!r}, which would be outside its directory")
    return name


def _ascii_url(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(path=quote(parts.path, safe=_URL_SAFE), query=quote(parts.query, safe=_URL_SAFE)).geturl()
