"""The only module that talks to the API server: sends and receives bytes, and translates errors."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from shared.connection_errors import no_response_message
from shared.kube.access import SERVICE_ACCOUNT, find_access
from shared.kube.credentials import DEFAULT_NAMESPACE, Access
from shared.kube.errors import Unreachable
from shared.kube.lines import split_lines
from shared.kube.status_errors import error_from_status

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_NO_QUERY: Mapping[str, str] = {}
_FIRST_ERROR = 400
_READ_BYTES = 2 * 2**20  # watch events can be long


@dataclass(frozen=True, slots=True)
class Kube:
    """An authenticated connection; `access` refreshes its credentials.

    `namespace` is where commands look for namespaced objects: the user's choice, else the namespace of the context.
    """

    access: Access
    session: aiohttp.ClientSession
    namespace: str = DEFAULT_NAMESPACE
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
        accept: str = JSON,
    ) -> bytes:
        """Send a request and read the whole response.

        Args:
            method: The HTTP method.
            path: The path, without the query.
            query: The parameters of the query.
            body: JSON builtins or a Struct; None for no body.
            content_type: The media type of the body.
            timeout_s: Limit for the whole exchange, in seconds.
            accept: The wanted media type.

        Returns:
            The body of the successful response.

        Raises:
            KubeError: There is no response, or its status is not 2xx.
        """
        limits = aiohttp.ClientTimeout(total=timeout_s, connect=self.connect_s)
        async with self._open(method, path, query, limits, body, content_type, accept) as response:
            with self._translated():
                return await response.read()

    @asynccontextmanager
    async def watch(self, path: str, query: Mapping[str, str], idle_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch.

        Args:
            path: The path of the collection.
            query: The parameters of the query, with `watch`.
            idle_s: The longest silence, in seconds.

        Yields:
            The lines of the watch.

        Raises:
            KubeError: The watch cannot be opened, or ended early; Unreachable after too long a silence.
        """
        limits = aiohttp.ClientTimeout(total=None, connect=self.connect_s, sock_read=idle_s)
        async with (
            self._open("GET", path, query, limits) as response,
            aclosing(self._received(response)) as chunks,
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
        accept: str = JSON,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        with self._translated():
            headers = {"Content-Type": content_type, "Accept": accept}
            if shown := await self.access.authorization():
                headers["Authorization"] = shown
            response = await self.session.request(
                method,
                self.access.server + path + (f"?{urlencode(query, quote_via=quote)}" if query else ""),
                data=None if body is None else msgspec.json.encode(body),
                headers=headers,
                timeout=limits,
                proxy=self.access.proxy,
                server_hostname=self.access.tls_server_name,
            )
        try:
            if response.status >= _FIRST_ERROR:
                with self._translated():
                    raise error_from_status(response.status, await response.read(), response.headers)
            yield response
        finally:
            response.release() if response.content.at_eof() else _drop(response)

    async def _received(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        with self._translated():
            async for chunk in response.content.iter_any():
                yield chunk

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(no_response_message(error, f"the API server at {self.access.server}")) from error


def connect(
    kubeconfig: str | Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    user_agent: str = "larder",
    environ: Mapping[str, str] = os.environ,
    context: str | None = None,
) -> AbstractAsyncContextManager[Kube]:
    """Connect with this kubeconfig or context, else as the pod's service account, else with the user's kubeconfig."""
    return _connected(kubeconfig, service_account, user_agent, environ, context)


@asynccontextmanager
async def _connected(
    kubeconfig: str | Path | None,
    service_account: Path,
    user_agent: str,
    environ: Mapping[str, str],
    context: str | None,
) -> AsyncIterator[Kube]:
    access = await find_access(kubeconfig, service_account, environ, context)
    connector = aiohttp.TCPConnector(ssl=access.tls)
    # With trust_env, every request would read .netrc and the environment again, in another thread.
    async with aiohttp.ClientSession(
        connector=connector, trust_env=False, read_bufsize=_READ_BYTES, headers={"User-Agent": user_agent}
    ) as session:
        yield Kube(access, session, access.namespace)
    await asyncio.sleep(0)  # aborted connections need one iteration of the event loop to close


def _drop(response: aiohttp.ClientResponse) -> None:
    """Close a connection in mid-body without a TLS shutdown, because the event loop may end before that finishes."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()
