"""The source for `hf://`: a repository, listed through the hub's client library and fetched by our own HTTP client."""

import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Literal, TypeVar
from urllib.parse import quote

from shared.errors import (
    AuthDenied,
    InvalidURI,
    LarderError,
    RateLimited,
    RevisionNotFound,
    SourceNotFound,
    Unreachable,
)
from shared.http.client import HttpClient, Request, Response
from shared.http.origins import Origin, origin_of
from shared.http.ranges import EmptyBody, RangeBody, open_range
from shared.manifest import File, Manifest, build_manifest
from shared.sources.credential_hints import HUB
from shared.sources.credential_keys import HUB_KEYS
from shared.sources.failures import RequestSubject, denied, failure_of
from shared.sources.host_grants import grant_for
from shared.sources.port import Body, Credentials
from shared.sources.settings import SourceSettings, default_hosts
from shared.uri.model_uri import HfUri, ModelUri

T = TypeVar("T")


class HubSource:
    """A model repository at a revision, which is a commit id once resolved."""

    shares_rights: Literal[True] = True

    def __init__(
        self,
        uri: ModelUri,
        credentials: Credentials,
        settings: SourceSettings,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(uri, HfUri):
            raise InvalidURI(f"{uri} is not an hf:// URI")
        self._uri, self._settings, self._now = uri, settings, now
        self._revision = uri.revision
        self._hub = origin_of(settings.hf_endpoint)
        self._grant = grant_for(
            self._hub,
            HUB_KEYS,
            credentials,
            defaults=default_hosts("hf", settings),
            endpoint=settings.configured_hub,
        )
        self._token = _valid_token(next(iter(self._grant.values.values()), ""))
        self._client = HttpClient(settings)
        self._links: dict[str, str] = {}

    def resolve(self) -> Manifest:
        """Pin the revision to a commit and list its files: LFS files by SHA-256, others by git blob id."""
        from shared.sources.hub.listing import list_repository  # noqa: PLC0415 - heavy; controller only

        commit, files = self._query_hub(list_repository)
        if not files:
            raise SourceNotFound(f"{self._uri} is an empty repository; push the files of the model, or correct the URI")
        self._revision = commit
        return build_manifest(str(HfUri(self._uri.repo, commit)), commit, files)

    def revision(self) -> str:
        """Return the commit of the revision, without listing files."""
        from shared.sources.hub.listing import find_commit  # noqa: PLC0415 - heavy; controller only

        return self._query_hub(find_commit)

    def _query_hub(self, query: Callable[[str, str, str, SourceSettings], T]) -> T:
        from shared.sources.hub.listing import HubRefusal  # noqa: PLC0415 - heavy; controller only

        url = f"{self._settings.hf_endpoint}/{self._uri.repo}"
        self._client.check_rate_limit(url)
        try:
            return query(self._uri.repo, self._uri.revision, self._token, self._settings)
        except HubRefusal as refusal:
            self._client.note_rate_limit(url, refusal.status, refusal.headers)
            subject = self._subject(str(self._uri), self._hub)
            raise decide_hub_failure(refusal.status, refusal.headers, subject, self._now()) from None

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open a part of a file at the resolved commit, or at the revision of the URI before `resolve`.

        A hub answers with a signed link for large files; the link is reused for further parts until it is refused.
        """
        if link := self._links.get(file.path):
            try:
                return self._open(Request(link), file, offset, length)
            except LarderError as error:
                self._links.pop(file.path, None)  # expired, or its host is down: ask the hub again
                if isinstance(error, RateLimited) or (isinstance(error, Unreachable) and error.tries):
                    raise  # the host asks for a pause, or retrying now would waste one of few tries
        revision, path = quote(self._revision, safe=""), quote(file.path)
        url = f"{self._settings.hf_endpoint}/{self._uri.repo}/resolve/{revision}/{path}"
        body = self._open(
            Request(url, secrets={"Authorization": f"Bearer {self._token}"} if self._token else {}),
            file,
            offset,
            length,
        )
        if body.url not in ("", url) and origin_of(body.url) != origin_of(url):
            self._links[file.path] = body.url
        return body

    def _open(self, request: Request, file: File, offset: int, length: int | None) -> RangeBody | EmptyBody:
        def failure(response: Response) -> LarderError:
            subject = self._subject(f"{self._uri}, file {file.path!r},", origin_of(response.url))
            return decide_hub_failure(response.status, response.headers, subject, self._now())

        return open_range(self._client, request, file, offset, length, failure=failure)

    def close(self) -> None:
        """Close all kept connections."""
        self._client.close()

    def _subject(self, what: str, origin: Origin) -> RequestSubject:
        return RequestSubject(what, HUB, self._grant.as_seen_by(origin))


def _valid_token(token: str) -> str:
    """Return the token without surrounding blanks; raises AuthDenied if no header can carry it."""
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise AuthDenied("HF_TOKEN has characters that tokens cannot have; set it to the token alone")
    return token


def decide_hub_failure(status: int, headers: Mapping[str, str], subject: RequestSubject, now: float) -> LarderError:
    """Return the error for a refusal by the hub.

    Without a token a hub answers 401 for private and for missing repositories; with the token of another user, 404.
    """
    code, host = headers.get("X-Error-Code") or "", subject.grant.host
    match code:
        case "GatedRepo":
            return denied(subject, "it is gated: accept its terms on the hub with the account of the token")
        case "RevisionNotFound":
            return RevisionNotFound(
                f"{host} has no such revision: {subject.what}; name an existing branch, tag or commit"
            )
        case "EntryNotFound":
            return SourceNotFound(f"{host} no longer has {subject.what}; correct the URI or refresh the model")
        case "RepoNotFound" if status == HTTPStatus.NOT_FOUND:
            return SourceNotFound(
                f"{host} has no {subject.what}, or hides it because it is private: correct the URI, or "
                f"{_credential_advice(subject)}"
            )
        case "RepoNotFound" if not (subject.grant.values or subject.grant.withheld):
            return AuthDenied(
                f"{host} requires credentials for {subject.what} (status {status}): it is private or does not exist, "
                f"which a hub does not disclose without a token; correct the URI, or {_credential_advice(subject)}"
            )
        case _:
            return failure_of(status, headers, subject, now)


def _credential_advice(subject: RequestSubject) -> str:
    return subject.hint.ambient if subject.grant.ambient else "name a Secret with an HF_TOKEN that may read it"
