"""Listing a repository by `huggingface_hub`, with its retries, caches and telemetry out of the way."""

import threading
from collections.abc import Iterator, Mapping

import httpx2
import huggingface_hub
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import HFValidationError
from huggingface_hub.hf_api import RepoFile

from shared.errors import AddressRefused, InvalidURI, Unreachable
from shared.manifest import File
from shared.sources.connections import make_tls_context, origin_of, public
from shared.sources.listing import bounded
from shared.sources.settings import SourceSettings


class HubRefusal(Exception):
    """A hub answered with a status of 400 or more."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers = status, headers


class _Transport(httpx2.HTTPTransport):
    """Requests to one hub alone, whose failures are ours at once: the library retries only errors that it knows."""

    def __init__(self, settings: SourceSettings) -> None:
        self._origin = origin_of(settings.hf_endpoint)
        proxy = settings.proxies.of(self._origin.scheme, self._origin.host)
        super().__init__(verify=make_tls_context(settings.ca_bundle), proxy=proxy.url if proxy else None)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        url = str(request.url)
        if origin_of(url) != self._origin:
            raise AddressRefused(
                f"the hub {self._origin.netloc} leads to {public(url)} while it is listed, which is not followed; "
                "configure the endpoint that is meant (HF_ENDPOINT)"
            )
        try:
            response = super().handle_request(request)
            response.read()
        except httpx2.HTTPError as error:
            cause = str(error) or type(error).__name__
            raise Unreachable(f"the hub {self._origin.netloc} cannot be listed: {cause}") from error
        if response.is_error:
            raise HubRefusal(response.status_code, response.headers)
        return response


class _Client(httpx2.Client):
    """The one HTTP client that `huggingface_hub` keeps a process, with our settings."""

    def __init__(self, settings: SourceSettings) -> None:
        timeout = httpx2.Timeout(settings.read_timeout_s, connect=settings.connect_timeout_s)
        super().__init__(transport=_Transport(settings), timeout=timeout, follow_redirects=True)
        self.settings = settings


_INSTALLING = threading.Lock()


def _ensure_client(settings: SourceSettings) -> None:
    """Make the library use a client with these settings."""
    with _INSTALLING:
        client = huggingface_hub.get_session()
        if not isinstance(client, _Client) or client.settings != settings:
            constants.HF_HUB_DISABLE_TELEMETRY = True
            huggingface_hub.set_client_factory(lambda: _Client(settings))


def list_repository(repo: str, revision: str, token: str, settings: SourceSettings) -> tuple[str, list[File]]:
    """Return the commit of a revision and its files; raises HubRefusal, LarderError."""
    _ensure_client(settings)
    api = HfApi(endpoint=settings.hf_endpoint, token=token or False, library_name="larder")
    try:
        commit = api.model_info(repo, revision=revision).sha
        if not commit:
            raise KeyError("sha")  # noqa: TRY301 - one translation for all answers that are not a hub's
        return commit, list(_files(api, repo, commit))
    except HFValidationError as error:
        raise InvalidURI(f"hf://{repo}: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise Unreachable(f"{settings.hf_host} does not answer as a hub does ({error!r}); check HF_ENDPOINT") from error


def _files(api: HfApi, repo: str, commit: str) -> Iterator[File]:
    for entry in bounded(api.list_repo_tree(repo, recursive=True, revision=commit), f"hf://{repo}@{commit}"):
        if isinstance(entry, RepoFile):
            digest = f"sha256:{entry.lfs.sha256}" if entry.lfs else f"git-sha1:{entry.blob_id}"
            yield File(entry.path, entry.lfs.size if entry.lfs else entry.size, digest)
