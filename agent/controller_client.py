"""Client of the controller's HTTPS API: manifests, credentials, progress."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec

from shared import errors
from shared.api.wire import CredentialsRequest, CredentialsResponse, Problem, ProgressReport
from shared.ca_reload import CaReloader, ClientReloader
from shared.connection_errors import no_response_message
from shared.decode_errors import DECODE_ERRORS
from shared.manifest import Manifest, decode_manifest

_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=5, sock_read=30)
_ERRORS_BY_REASON = {
    kind.__name__: kind
    for kind in (
        errors.NotGranted, errors.SourceNotFound, errors.RevisionNotFound, errors.AuthDenied, errors.UnsafePath,
        errors.TooManyFiles, errors.AddressRefused, errors.InvalidURI, errors.NameConflict, errors.SourceChanged,
    )
}  # fmt: skip
_SUCCESS = range(200, 300)
_TOO_MANY_REQUESTS = 429
_NOT_FOUND = 404


@dataclass(slots=True)
class ControllerClient:
    """The client. Token and CA are rotated: it reads the token for each call, and the CA whenever its file changes."""

    url: str
    token_file: Path
    ca_file: Path | None = None
    _clients: ClientReloader[aiohttp.ClientSession] = field(init=False)

    def __post_init__(self) -> None:
        self._clients = ClientReloader(CaReloader(self.ca_file), _connected, aiohttp.ClientSession.close)

    async def manifest(self, digest: str) -> Manifest:
        """Return the manifest with this digest.

        Raises:
            NotGranted: The controller refused it.
            Unreachable: The controller did not answer.
            UnsafePath: The manifest has unsafe file names.
        """
        body = await self._call("GET", f"/v1/manifests/{digest}")
        try:
            return decode_manifest(body, digest)
        except (ValueError, *DECODE_ERRORS) as error:
            raise errors.Unreachable(
                f"the controller at {self.url} sent an invalid manifest {digest}: {error}"
            ) from error

    async def credentials(self, identity: str, revision: str) -> CredentialsResponse:
        """Return the secret values for one entry of this node. Raises NotGranted, Unreachable."""
        body = await self._call("POST", "/v1/credentials", CredentialsRequest(id=identity, revision=revision))
        try:
            return msgspec.json.decode(body, type=CredentialsResponse)
        except DECODE_ERRORS as error:
            raise errors.Unreachable(
                f"{self.url} did not answer with credentials; check that --api-url is the controller"
            ) from error

    async def report(self, progress: ProgressReport) -> None:
        """Report the progress of downloads and removals. Raises NotGranted, Unreachable."""
        await self._call("POST", "/v1/progress", progress)

    async def close(self) -> None:
        """Close the connections."""
        await self._clients.close()

    async def _call(self, method: str, path: str, body: msgspec.Struct | None = None) -> bytes:
        session = await self._session()
        headers = {"Authorization": f"Bearer {self._token()}", "Content-Type": "application/json"}
        data = msgspec.json.encode(body) if body is not None else None
        try:
            async with session.request(
                method, f"{self.url}{path}", data=data, headers=headers, allow_redirects=False
            ) as response:
                content = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise errors.Unreachable(no_response_message(error, f"the controller at {self.url}")) from error
        if response.status in _SUCCESS:
            return content
        raise error_of_response(response.status, content, response.headers.get("Retry-After", ""))

    async def _session(self) -> aiohttp.ClientSession:
        try:
            return await self._clients.client()
        except OSError as error:
            raise errors.Unreachable(
                f"cannot read the controller's CA from {self.ca_file}: {error}; check --api-ca"
            ) from error

    def _token(self) -> str:
        try:
            return self.token_file.read_text().strip()
        except OSError as error:
            raise errors.Unreachable(
                f"cannot read the token for the controller from {self.token_file}: {error}; check --token-file"
            ) from error


def _connected(context: ssl.SSLContext) -> aiohttp.ClientSession:
    """Return a session of the HTTP library of the Kubernetes client: another library would cost each agent 4 MB."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context), timeout=_TIMEOUT)


def error_of_response(code: int, body: bytes, retry_after: str = "") -> errors.LarderError:
    """Return the error for a response's status and body, which a proxy may have replaced."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except DECODE_ERRORS:
        problem = Problem("", f"the controller answered with status {code}")
    if code == _TOO_MANY_REQUESTS:
        return errors.RateLimited(problem.message, float(retry_after) if retry_after.isdecimal() else 1.0)
    if kind := _ERRORS_BY_REASON.get(problem.reason):
        return kind(problem.message)
    if code in (401, 403, _NOT_FOUND):
        return errors.NotGranted(problem.message or f"the controller answered with status {code}")
    return errors.Unreachable(problem.message or f"the controller answered with status {code}")
