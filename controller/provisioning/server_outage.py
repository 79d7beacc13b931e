"""Pauses all creations while the API server fails."""

from dataclasses import dataclass

from shared.backoff import Backoff
from shared.kube.errors import Busy, KubeError, Unreachable
from shared.token_bucket import rounded_wait_s

_TOO_MANY_REQUESTS = 429
_LONGEST_PAUSE_S = 120.0  # even if a server asks for more
_CONVERSION = "conversion webhook for "  # in a 5xx: of the workload that would own a claim, in some namespaces only


def concerns_all(error: KubeError, *, others_succeed: bool) -> bool:
    """Return whether requests of other namespaces would fail as well.

    Args:
        error: Why a creation failed.
        others_succeed: Whether a creation in another namespace has succeeded since this one began. A webhook that
            never answers looks like a server that never answers, but only to the namespaces that it serves.
    """
    if _CONVERSION in str(error):
        return False
    return isinstance(error, Busy) or (isinstance(error, Unreachable) and not others_succeed)


@dataclass(slots=True)
class ServerOutage:
    """Failures of the whole API server in a row, and until when creations pause for them."""

    backoff: Backoff
    failures: int = 0
    resumes_at_s: float = 0.0
    _paused_at_s: float = 0.0

    def note(self, error: KubeError, begun_s: float, now_s: float) -> None:
        """Record a failure of an attempt; one that began before the last pause is nothing new."""
        if self.failures and begun_s < self._paused_at_s:
            return
        self.failures += 1
        asked_s = error.after_s if isinstance(error, Busy) and error.code == _TOO_MANY_REQUESTS else None
        self._paused_at_s = now_s
        self.resumes_at_s = now_s + self.backoff.delay_s(self.failures, min(asked_s or 0.0, _LONGEST_PAUSE_S))

    def wait_s(self, now_s: float) -> float:
        """Return how many more seconds creations pause."""
        return rounded_wait_s(self.resumes_at_s - now_s)

    def end(self) -> None:
        """Record that the server answers; a pause that has begun is kept."""
        self.failures = 0

    def clear(self) -> None:
        """Drop everything."""
        self.failures, self.resumes_at_s = 0, 0.0
