"""The only module that talks to the API server: bytes out, bytes in, errors translated."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from shared.kube.client import ApiClient
from shared.kube.credentials import SERVICE_ACCOUNT, configure
from shared.kube.errors import NoCluster, Unreachable
from shared.kube.lines import split_lines
from shared.kube.refusal import refusal

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_NO_QUERY: Mapping[str, str] = {}
_FIRST_ERROR = 400


@dataclass(frozen=True, slots=True)
class Kube:
    """An authenticated connection; credentials and their refresh are the client's affair."""

    api: ApiClient
    connect_s: float = 5
    line_limit_bytes: int = 32 * 2**20

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = _NO_QUERY,
        body: object = None,
        content_type: str = JSON,
        timeout_s: float = 30,
    ) -> bytes:
        """Return the body of a success; `body` is JSON builtins or a Struct; raises KubeError."""
        limits = aiohttp.ClientTimeout(total=timeout_s, connect=self.connect_s)
        async with self._open(method, path, query, limits, body, content_type) as response:
            with _translated():
                return await response.read()

    @asynccontextmanager
    async def watch(self, path: str, query: Mapping[str, str], idle_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch and give its lines; silence longer than `idle_s` is Unreachable."""
        limits = aiohttp.ClientTimeout(total=None, connect=self.connect_s, sock_read=idle_s)
        async with (
            self._open("GET", path, query, limits) as response,
            aclosing(_received(response)) as chunks,
            aclosing(split_lines(chunks, self.line_limit_bytes)) as lines,
        ):
            yield lines

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        limits: aiohttp.ClientTimeout,
        body: object = None,
        content_type: str = JSON,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        with _translated():
            request = await self.api.param_serialize(
                method,
                path,
                query_params=list(query.items()),
                header_params={"Content-Type": content_type, "Accept": JSON},
                body=None if body is None else msgspec.to_builtins(body),
                auth_settings=["BearerToken"],
            )
            response: aiohttp.ClientResponse = (await self.api.call_api(*request, _request_timeout=limits)).response
        try:
            if response.status >= _FIRST_ERROR:
                with _translated():
                    raise refusal(response.status, await response.read(), response.headers)
            yield response
        finally:
            response.release() if response.content.at_eof() else _drop(response)


def connect(
    kubeconfig: str | Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    user_agent: str = "larder",
    environ: Mapping[str, str] = os.environ,
) -> AbstractAsyncContextManager[Kube]:
    """Connect by this kubeconfig; without one as the pod's service account, else by the user's own kubeconfig.

    Raises NoCluster when there is none that could be used. The `user_agent` is what `managedFields` show.
    """
    return _connected(kubeconfig, service_account, user_agent, environ)


@asynccontextmanager
async def _connected(
    kubeconfig: str | Path | None, service_account: Path, user_agent: str, environ: Mapping[str, str]
) -> AsyncIterator[Kube]:
    configuration = await configure(kubeconfig, service_account, environ)
    try:
        client = ApiClient(configuration)
    except OSError as error:  # an SSLError too
        files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        raise NoCluster(f"unusable certificates, one of {[file for file in files if file]}: {error}") from error
    async with client as api:
        api.user_agent = user_agent
        yield Kube(api)
    await asyncio.sleep(0)  # connections that were aborted are gone after one turn of the loop


def _drop(response: aiohttp.ClientResponse) -> None:
    """Close a connection in the middle of a body, without the TLS farewell that its loop may not live to see."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()


async def _received(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    with _translated():
        async for chunk in response.content.iter_any():
            yield chunk


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unreachable(f"{type(error).__name__}: {error}") from error
