"""A small blocking client of the API server, for the rig itself and for tests that check the state."""

import ssl
from typing import Any

import httpx

from rig.errors import CallRefused

MERGE = "application/merge-patch+json"
_TIMEOUT_S = 60.0  # longer than the API server waits for admission


class Api:
    """Requests in plain JSON, authenticated by a client certificate or a token."""

    def __init__(self, server: str, context: ssl.SSLContext, token: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=server, verify=context, headers=headers, timeout=_TIMEOUT_S, trust_env=False)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def call(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """Return the JSON of a response; raises CallRefused if it is an error, httpx.HTTPError if there is none."""
        response = self._http.request(method, path, json=body, headers={"Content-Type": content_type})
        if response.is_error:
            raise CallRefused(f"{method} {path}: {response.status_code} {_message(response)}", response.status_code)
        answer: dict[str, Any] = response.json()
        return answer

    def get(self, path: str) -> dict[str, Any]:
        """Return an object or a list."""
        return self.call("GET", path)

    def create(self, path: str, body: object) -> dict[str, Any]:
        """Post an object to its collection."""
        return self.call("POST", path, body)

    def ensure(self, path: str, body: object) -> dict[str, Any] | None:
        """Create an object unless one with its name exists; return the new object, or None."""
        try:
            return self.create(path, body)
        except CallRefused as refusal:
            if refusal.status == httpx.codes.CONFLICT:
                return None
            raise

    def patch(self, path: str, body: object, content_type: str = MERGE) -> dict[str, Any]:
        """Merge a change into an object."""
        return self.call("PATCH", path, body, content_type)

    def delete(self, path: str, grace_s: int | None = None) -> bool:
        """Delete an object; return False if it did not exist."""
        try:
            self.call("DELETE", path if grace_s is None else f"{path}?gracePeriodSeconds={grace_s}")
        except CallRefused as refusal:
            if refusal.status == httpx.codes.NOT_FOUND:
                return False
            raise
        return True

    def answers(self, path: str) -> bool:
        """Return whether a path answers with 200, whatever the body."""
        try:
            return self._http.get(path).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def lists_kind(self, group_version: str, kind: str) -> bool:
        """Return whether discovery lists a kind below a path such as `/apis/apps/v1`."""
        return self.answers(group_version) and any(r["kind"] == kind for r in self.get(group_version)["resources"])


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json().get("message", response.text))
    except ValueError:
        return response.text
