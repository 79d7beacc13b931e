"""The messages between agents and the controller's HTTPS API. Every request carries the agent's Pod-bound token.

GET  /v1/manifests/{digest}   200 the canonical bytes of a Manifest; 403 NotGranted; 404
POST /v1/credentials          CredentialsRequest -> CredentialsResponse; 403 NotGranted
POST /v1/progress             ProgressReport -> 204
The body of an error is a Problem.
"""

import msgspec


class CredentialsRequest(msgspec.Struct, frozen=True):
    """Requests the credentials of one model in the ModelNode of the caller's node."""

    id: str
    revision: str


class ClaimCredentials(msgspec.Struct, frozen=True):
    """The values of a Secret for one claim, by key, and the hosts they may be sent to; `*` alone is not allowed."""

    claim_uid: str
    values: dict[str, str] = {}
    hosts: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return the keys without any values."""
        return f"ClaimCredentials(claim_uid={self.claim_uid!r}, keys={sorted(self.values)}, hosts={self.hosts})"


class CredentialsResponse(msgspec.Struct, frozen=True):
    """The credentials for each claim, in the order of the claims in the entry."""

    grants: tuple[ClaimCredentials, ...]


class EntryProgress(msgspec.Struct, frozen=True):
    """Progress of one download or removal: bytes done, total bytes, and the recent rate in bytes per second."""

    id: str
    revision: str
    done: int
    total: int
    rate: float = 0.0


class ProgressReport(msgspec.Struct, frozen=True):
    """Progress of all downloads and removals on the node; sent every second or two while there are any."""

    entries: tuple[EntryProgress, ...]


class Problem(msgspec.Struct, frozen=True):
    """Why a request was refused."""

    reason: str
    message: str
