"""The source for `gs://`: an object, or everything below a prefix, of a bucket, through the JSON API."""

import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from operator import attrgetter
from urllib.parse import quote, urlencode

import msgspec

from shared.errors import InvalidURI, LarderError, SourceChanged, SourceNotFound
from shared.http.client import HttpClient, Request, Response
from shared.http.origins import endpoint_origin, origin_of
from shared.http.ranges import open_range
from shared.manifest import File, Manifest, build_manifest
from shared.sources.credential_hints import GOOGLE
from shared.sources.credential_keys import GOOGLE_KEY, GOOGLE_KEYS
from shared.sources.failures import RequestSubject, failure_of
from shared.sources.gcs.objects import FIELDS, GcsObject, GcsPage, decoded, file_of
from shared.sources.gcs.service_account import ask_google, check_token_uri, parse_account
from shared.sources.host_grants import grant_for
from shared.sources.listing_limits import bounded_names, bounded_pages
from shared.sources.port import Body, Credentials
from shared.sources.prefix_keys import PrefixKeys, beginning_of, choose_files, last_name, path_below
from shared.sources.settings import SourceSettings, default_hosts
from shared.sources.tokens import CachedToken, Token, bearer
from shared.uri.buckets import GcsUri
from shared.uri.model_uri import ModelUri

_GOOGLE = "https://storage.googleapis.com"


class GcsSource:
    """The objects of one URI, each pinned to its generation; requests are anonymous without a key."""

    def __init__(
        self,
        uri: ModelUri,
        credentials: Credentials,
        settings: SourceSettings,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not isinstance(uri, GcsUri):
            raise InvalidURI(f"{uri} is not a gs:// URI")
        self._uri, self._settings, self._now, self._clock = uri, settings, now, clock
        self._endpoint = settings.gcs_endpoint or _GOOGLE
        self._credentials = credentials
        self._grant = grant_for(
            origin_of(self._endpoint),
            GOOGLE_KEYS,
            credentials,
            defaults=default_hosts("gs", settings),
            endpoint=endpoint_origin(settings.gcs_endpoint),
        )
        self._client = HttpClient(settings)
        self._keys = PrefixKeys(uri.prefix)
        self._token = self._make_token()

    def resolve(self) -> Manifest:
        """List the object that the URI names exactly, else all objects below it; never its siblings."""
        found = self._describe(self._uri.prefix) if self._uri.prefix else None
        exact = file_of(last_name(self._uri.prefix), found, self._uri.bucket) if found else None
        return build_manifest(str(self._uri), "", choose_files(self._uri, exact, self._files_below))

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open a part of an object at the generation that was listed."""
        return self._keys.open(file.path, lambda key: self._open_key(key, file, offset, length))

    def close(self) -> None:
        """Close all kept connections."""
        self._client.close()

    def _make_token(self) -> CachedToken | None:
        text = self._grant.values.get(GOOGLE_KEY)
        if not text:
            return None

        def ask() -> Token:
            account = parse_account(text)
            check_token_uri(account.token_uri, self._credentials, self._settings.gcs_endpoint)
            return ask_google(self._client, account, self._now, ambient=self._credentials.ambient)

        return CachedToken(ask, self._clock)

    def _files_below(self) -> Iterator[File]:
        pages = bounded_pages(self._pages(beginning_of(self._uri.prefix)), str(self._uri))
        items = (item for page in pages for item in page.items)
        for item in bounded_names(items, attrgetter("name"), str(self._uri)):
            if (path := path_below(self._uri.prefix, item.name, item.size)) is not None:
                yield file_of(path, item, self._uri.bucket)

    def _pages(self, prefix: str) -> Iterator[GcsPage]:
        token = ""
        while True:
            query = {"prefix": prefix, "fields": f"nextPageToken,items({FIELDS})", "pageToken": token}
            response = self._send("", query)
            if response.status != HTTPStatus.OK:
                raise self._failure(response, str(self._uri))
            page = decoded(response, GcsPage)
            yield page
            token = page.next_page_token
            if not token:
                return

    def _describe(self, key: str) -> GcsObject | None:
        """Return the metadata of the live object; None if it is missing or not visible."""
        response = self._send(f"/{quote(key, safe='')}", {"fields": FIELDS})
        if response.status in (HTTPStatus.NOT_FOUND, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            # Google answers 403 for a missing object if the caller may not list. The listing that follows explains the
            # refusal.
            response.read_small()
            response.close()
            return None
        if response.status != HTTPStatus.OK:
            raise self._failure(response, self._name_of(key))
        return decoded(response, GcsObject)

    def _open_key(self, key: str, file: File, offset: int, length: int | None) -> Body:
        query = {"alt": "media", "generation": file.etag}
        # The entity tag of the response is not the generation; the request itself names the generation.
        plain = msgspec.structs.replace(file, etag="")
        try:
            return open_range(
                self._client, self._build_request(f"/{quote(key, safe='')}", query), plain, offset, length,
                failure=lambda response: self._failure(response, self._name_of(key)),
            )  # fmt: skip
        except SourceNotFound:
            live = self._describe(key) if file.etag else None
            if live and live.generation != file.etag:
                raise SourceChanged(
                    f"{self._name_of(key)} changed since it was resolved; it will be resolved again"
                ) from None
            raise

    def _send(self, path: str, query: Mapping[str, str]) -> Response:
        return self._client.send(self._build_request(path, query))

    def _build_request(self, path: str, query: Mapping[str, str]) -> Request:
        parameters = urlencode({name: value for name, value in query.items() if value})
        url = f"{self._endpoint}/storage/v1/b/{quote(self._uri.bucket, safe='')}/o{path}?{parameters}"
        return Request(url, secrets=bearer(self._token.get()) if self._token else {})

    def _name_of(self, key: str) -> str:
        return f"gs://{self._uri.bucket}/{key}"

    def _failure(self, response: Response, what: str) -> LarderError:
        response.read_small()
        response.close()
        return failure_of(response.status, response.headers, RequestSubject(what, GOOGLE, self._grant), self._now())
