"""Lists a repository through `huggingface_hub`, without its retries, caches and telemetry."""

import re
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from logging import CRITICAL

import httpx2
import huggingface_hub
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import HFValidationError
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import logging

from shared.errors import AddressRefused, InvalidURI, Unreachable
from shared.http.client import REDIRECT_TRIES
from shared.http.connection_pool import make_tls_context, tls_error_message
from shared.http.origins import origin_of, public
from shared.manifest import File
from shared.sources.listing_limits import LONGEST_LIST_S, bounded_names
from shared.sources.settings import SourceSettings

_LONGEST_BYTES = 64 * 1024 * 1024  # limit of a decompressed response; 1,000 files take about half a MiB
_LONGEST_S = 60.0
# Those of the encoding that was undone, and cookies: all models share the client, but not the sessions of tokens.
_DROPPED_HEADERS = ("content-encoding", "content-length", "transfer-encoding", "set-cookie")
_COMMIT = re.compile(r"[0-9a-zA-Z]{1,100}")
_DIGEST = re.compile(r"git-sha1:[0-9a-f]{40}|sha256:[0-9a-f]{64}")
_MAX_PAGES = 2000
_MAX_REDIRECTS = 5
_SIZE_LIMIT_BYTES = 2**63  # more than any file system can count


class HubRefusal(Exception):
    """The hub answered with a status of 400 or more."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers = status, headers


class _Transport(httpx2.HTTPTransport):
    """Requests to a single hub; failures become our errors at once, as the library retries only errors it knows."""

    def __init__(self, settings: SourceSettings) -> None:
        self._origin = origin_of(settings.hf_endpoint)
        self._timeout = _timeout(settings).as_dict()
        proxy = settings.proxies.of(self._origin.scheme, self._origin.host)
        super().__init__(verify=make_tls_context(settings.ca_bundle), proxy=proxy.url if proxy else None)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        url = str(request.url)
        _refuse_loops(url)
        request.extensions = {**request.extensions, "timeout": self._timeout}  # the library sets none
        if origin_of(url) != self._origin:
            raise AddressRefused(
                f"the hub {self._origin.netloc} redirected its listing to {public(url)}, which is not followed; "
                "configure the right endpoint (HF_ENDPOINT)"
            )
        try:
            response = _read_response(super().handle_request(request))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unreachable(f"the hub {self._origin.netloc} cannot be listed: {_cause(error)}") from error
        if response.is_error:
            raise HubRefusal(response.status_code, response.headers)
        return response


def _refuse_loops(url: str) -> None:
    """Raise Unreachable if a listing repeats a page, has too many pages, or takes too long."""
    if time.monotonic() > _PROGRESS.until_s:
        raise Unreachable(f"the listing of the hub takes too long ({public(url)}); check HF_ENDPOINT")
    if url in _PROGRESS.urls or len(_PROGRESS.urls) >= _MAX_PAGES:
        raise Unreachable(
            f"the listing of the hub repeats itself or has too many pages ({public(url)}); check HF_ENDPOINT",
            REDIRECT_TRIES,
        )
    _PROGRESS.urls.add(url)


def _read_response(response: httpx2.Response) -> httpx2.Response:
    """Read and decompress the body of a response; raises DecodingError if it is too long or too slow."""
    body, until = bytearray(), time.monotonic() + _LONGEST_S
    try:
        for part in response.iter_bytes():
            body += part
            if len(body) > _LONGEST_BYTES or time.monotonic() > until:
                raise httpx2.DecodingError(
                    f"the response is longer than {_LONGEST_BYTES} bytes or took longer than {_LONGEST_S:.0f} seconds"
                )
    finally:
        response.close()
    headers = [(name, value) for name, value in response.headers.items() if name not in _DROPPED_HEADERS]
    return httpx2.Response(response.status_code, headers=headers, content=bytes(body))


def _cause(error: Exception) -> str:
    """Return the cause of a failure in the transport library."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return tls_error_message(cause)
        cause = cause.__cause__ if cause.__cause__ is not None else cause.__context__
    return str(error) or type(error).__name__


def _timeout(settings: SourceSettings) -> httpx2.Timeout:
    return httpx2.Timeout(settings.read_timeout_s, connect=settings.connect_timeout_s)


class _Client(httpx2.Client):
    """The one HTTP client that `huggingface_hub` keeps for a process, with our settings."""

    def __init__(self, settings: SourceSettings) -> None:
        super().__init__(
            transport=_Transport(settings),
            timeout=_timeout(settings),
            follow_redirects=True,
            max_redirects=_MAX_REDIRECTS,
        )
        self.settings = settings


_INSTALL_LOCK = threading.Lock()


class _ListingProgress(threading.local):
    """The pages that this thread has requested since its listing began."""

    def __init__(self) -> None:
        self.urls: set[str] = set()
        self.until_s = 0.0


_PROGRESS = _ListingProgress()


def _ensure_client(settings: SourceSettings) -> None:
    """Make the library use a client with these settings."""
    with _INSTALL_LOCK:
        client = huggingface_hub.get_session()
        if not isinstance(client, _Client) or client.settings != settings:
            constants.HF_HUB_DISABLE_TELEMETRY = True
            logging.set_verbosity(CRITICAL)  # headers sent by a hub must not become our log lines
            huggingface_hub.set_client_factory(lambda: _Client(settings))


def find_commit(repo: str, revision: str, token: str, settings: SourceSettings) -> str:
    """Return the commit of a revision; raises HubRefusal, LarderError."""
    with _as_errors(repo, settings):
        return _commit(_api(token, settings), repo, revision)


def list_repository(repo: str, revision: str, token: str, settings: SourceSettings) -> tuple[str, list[File]]:
    """Return the commit of a revision and its files; raises HubRefusal, LarderError."""
    with _as_errors(repo, settings):
        api = _api(token, settings)
        commit = _commit(api, repo, revision)
        return commit, list(_files(api, repo, commit))


@contextmanager
def _as_errors(repo: str, settings: SourceSettings) -> Iterator[None]:
    _PROGRESS.urls.clear()
    _PROGRESS.until_s = time.monotonic() + LONGEST_LIST_S
    try:
        yield
    except HFValidationError as error:
        raise InvalidURI(f"hf://{repo}: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        detail = f"{type(error).__name__}: {str(error)[:200]}"
        raise Unreachable(
            f"{settings.hf_host} sent a response that is not valid for a hub ({detail}); check HF_ENDPOINT"
        ) from error
    except httpx2.TooManyRedirects as error:
        message = f"the hub {settings.hf_host} redirects too often; check HF_ENDPOINT"
        raise Unreachable(message, REDIRECT_TRIES) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise Unreachable(f"the hub {settings.hf_host} cannot be listed: {_cause(error)}") from error


def _api(token: str, settings: SourceSettings) -> HfApi:
    _ensure_client(settings)
    return HfApi(endpoint=settings.hf_endpoint, token=token or False, library_name="larder")


def _commit(api: HfApi, repo: str, revision: str) -> str:
    commit = api.model_info(repo, revision=revision).sha
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise ValueError("the field sha is not a commit")
    return commit


def _files(api: HfApi, repo: str, commit: str) -> Iterator[File]:
    entries = api.list_repo_tree(repo, recursive=True, revision=commit)
    for entry in bounded_names(entries, lambda entry: str(entry.path), f"hf://{repo}@{commit}"):
        if isinstance(entry, RepoFile):
            yield _file_of(entry)


def _file_of(entry: RepoFile) -> File:
    """Return the file of an entry. Raises ValueError if it is malformed: the library does not validate fields."""
    size, digest = entry.size, f"git-sha1:{entry.blob_id}"
    if entry.lfs:
        size, digest = entry.lfs.size, f"sha256:{entry.lfs.sha256}"
    if not _is_file(entry.path, size, digest):
        raise ValueError(f"the file {str(entry.path)[:80]!r} has no valid size or digest")
    return File(entry.path, size, digest)


def _is_file(path: object, size: object, digest: str) -> bool:
    is_size = type(size) is int and 0 <= size < _SIZE_LIMIT_BYTES
    return isinstance(path, str) and is_size and bool(_DIGEST.fullmatch(digest))
