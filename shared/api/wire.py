"""The messages between agents and the controller's HTTPS API. Every request carries the agent's Pod-bound token.

GET  /v1/manifests/{digest}   200 the canonical bytes of a Manifest; 403 NotGranted; 404
POST /v1/credentials          CredentialsRequest -> Credentials; 403 NotGranted
POST /v1/progress             ProgressReport -> 204
An error's body is a Problem.
"""

import msgspec


class CredentialsRequest(msgspec.Struct, frozen=True):
    """Ask for the secret values of one model that this node's ModelNode lists."""

    id: str
    revision: str


class CredentialGrant(msgspec.Struct, frozen=True):
    """One claim's values (keys as in the Secret) and the hosts that they may be sent to (`*` alone is never one)."""

    claim_uid: str
    values: dict[str, str] = {}
    hosts: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Name the keys, never the values."""
        return f"Grant(claim_uid={self.claim_uid!r}, keys={sorted(self.values)}, hosts={self.hosts})"


class CredentialsResponse(msgspec.Struct, frozen=True):
    """One grant a claim, in the order of the entry's claims."""

    grants: tuple[CredentialGrant, ...]


class EntryProgress(msgspec.Struct, frozen=True):
    """How far one download, or one removal, is: bytes done and in all, and bytes a second of late."""

    id: str
    revision: str
    done: int
    total: int
    rate: float = 0.0


class ProgressReport(msgspec.Struct, frozen=True):
    """Every download and removal that runs on the node; sent every second or two while one does."""

    entries: tuple[EntryProgress, ...]


class Problem(msgspec.Struct, frozen=True):
    """Why a request was refused."""

    reason: str
    message: str
