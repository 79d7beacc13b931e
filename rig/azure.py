"""A real server of the Azure blob service: azurite, in memory, which checks shared keys."""

import base64
import secrets
import time
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote

import httpx

from rig.ports import LOOPBACK, free_port
from rig.processes import Process, Program
from rig.running import RunningProcess
from shared.sources.azure.requests import sign, string_to_sign

_READY_S = 120.0
_TIMEOUT_S = 30.0
_VERSION = "2021-12-02"


class Azure(RunningProcess):
    """A running server; use as a context manager. It has one account with its own key."""

    account = "rigaccount"

    def __init__(self, azurite: Path, state: Path) -> None:
        self._program, self._state, self._port = azurite, state, free_port()
        self.key = base64.b64encode(secrets.token_bytes(64)).decode()
        self.endpoint = f"http://{LOOPBACK}:{self._port}"
        self.client = httpx.Client(base_url=self.endpoint, timeout=_TIMEOUT_S, trust_env=False)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        argv = [str(self._program), "--blobHost", LOOPBACK, "--blobPort", str(self._port), "--inMemoryPersistence"]
        argv += ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        env = {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"}
        self._process = Process(Program("azurite", argv, env), self._state / "log" / "azurite.log")
        self._process.wait_ready(self._answers, _READY_S)

    def stop(self) -> None:
        """Stop the server."""
        self.client.close()
        super().stop()

    def make_container(self, container: str, *, public: str = "") -> None:
        """Create a container; `public` is `container` or `blob` to let everybody read."""
        headers = {"x-ms-blob-public-access": public} if public else {}
        self.send("PUT", f"{container}?restype=container", headers=headers).raise_for_status()

    def put(self, container: str, name: str, data: bytes, **metadata: str) -> None:
        """Write a blob."""
        headers = {"x-ms-blob-type": "BlockBlob", **{f"x-ms-meta-{key}": value for key, value in metadata.items()}}
        path = f"{container}/{quote(name, safe='/')}"
        self.send("PUT", path, data, headers | {"Content-Type": "application/octet-stream"}).raise_for_status()

    def remove(self, container: str, name: str) -> None:
        """Delete a blob."""
        self.send("DELETE", f"{container}/{quote(name, safe='/')}").raise_for_status()

    def sas(self, permissions: str = "rl") -> str:
        """Return a SAS token with these permissions on all blobs for an hour."""
        fields = {"sp": permissions, "st": "", "se": _iso(time.time() + 3600), "sv": _VERSION, "ss": "b", "srt": "sco"}
        text = "\n".join(
            [self.account, permissions, fields["ss"], fields["srt"], "", fields["se"], "", "", fields["sv"], "", ""]
        )
        query = {name: value for name, value in fields.items() if value} | {"sig": sign(text, self.key)}
        return str(httpx.QueryParams(query))

    def send(self, method: str, path: str, data: bytes = b"", headers: dict[str, str] | None = None) -> httpx.Response:
        """Send a request signed with the key of the account."""
        url = f"{self.endpoint}/{self.account}/{path}"
        sent = {**(headers or {}), "x-ms-version": _VERSION, "x-ms-date": formatdate(usegmt=True)}
        signed = sent | ({"Content-Length": str(len(data))} if data else {})
        sent["Authorization"] = (
            f"SharedKey {self.account}:{sign(string_to_sign(method, url, self.account, signed), self.key)}"
        )
        return self.client.request(method, url, content=data, headers=sent)

    def _answers(self) -> bool:
        try:
            return self.client.get(f"/{self.account}/none/none").status_code > 0
        except httpx.HTTPError:
            return False


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
