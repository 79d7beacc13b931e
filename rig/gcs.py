"""A real server of the Google Cloud Storage API (fake-gcs-server, in memory) behind a gate that checks tokens."""

from pathlib import Path
from urllib.parse import quote

import httpx

from rig.google_account import GoogleAccount
from rig.ports import LOOPBACK, free_port
from rig.processes import Process, Program
from rig.running import RunningProcess
from rig.scripted_http import ScriptedRequest, ScriptedServer, reply

_READY_S = 60.0
_TIMEOUT_S = 30.0
_BUCKETS = "/storage/v1/b/"
_PASSED_ON = ("content-type", "content-range", "etag", "x-goog-generation")


class Gcs(RunningProcess):
    """A running server; use as a context manager.

    The server itself checks no tokens, so a gate in front of it, at `endpoint`, restricts `private` buckets to tokens
    of `account`.
    """

    def __init__(self, fake_gcs_server: Path, state: Path) -> None:
        self._program, self._state, self._port = fake_gcs_server, state, free_port()
        self._gate = ScriptedServer(self._answer)
        self.endpoint = self._gate.url
        self.account = GoogleAccount(f"{self.endpoint}/token")
        self.private: set[str] = set()
        behind = f"http://{LOOPBACK}:{self._port}"
        self.client = httpx.Client(base_url=behind, timeout=_TIMEOUT_S, trust_env=False)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        argv = [str(self._program), "-scheme", "http", "-host", LOOPBACK, "-port", str(self._port)]
        argv += ["-backend", "memory", "-log-level", "warn", "-public-host", f"{LOOPBACK}:{self._port}"]
        self._process = Process(Program("fake-gcs-server", argv), self._state / "log" / "fake-gcs-server.log")
        self._process.wait_ready(self._answers, _READY_S)

    def stop(self) -> None:
        """Stop the server and the gate."""
        self._gate.close()
        self.client.close()
        super().stop()

    def make_bucket(self, bucket: str) -> None:
        """Create a bucket."""
        self.client.post("/storage/v1/b", json={"name": bucket}).raise_for_status()

    def put(self, bucket: str, key: str, data: bytes) -> None:
        """Write an object."""
        place = f"/upload/storage/v1/b/{bucket}/o"
        query = {"uploadType": "media", "name": key}
        headers = {"Content-Type": "application/octet-stream"}
        self.client.post(place, params=query, content=data, headers=headers).raise_for_status()

    def remove(self, bucket: str, key: str) -> None:
        """Delete an object."""
        self.client.delete(f"{_BUCKETS}{bucket}/o/{quote(key, safe='')}").raise_for_status()

    def _answer(self, asked: ScriptedRequest) -> bytes:
        """Answer for the gate: a token, a refusal, or the response of the server behind it."""
        if asked.target == "/token":
            status, body = self.account.answer(asked.body)
            return reply(status, body)
        if not self._may_pass(asked):
            return reply(401)
        wanted = {"Range": asked.headers["range"]} if "range" in asked.headers else {}
        response = self.client.get(asked.target, headers=wanted)
        kept = {name: response.headers[name] for name in _PASSED_ON if name in response.headers}
        return reply(response.status_code, response.content, **kept)

    def _may_pass(self, asked: ScriptedRequest) -> bool:
        bucket = asked.target.removeprefix(_BUCKETS).partition("/")[0]
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        return token in self.account.tokens if token else bucket not in self.private

    def _answers(self) -> bool:
        try:
            return self.client.get("/_internal/healthcheck").is_success
        except httpx.HTTPError:
            return False
