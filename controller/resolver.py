"""Asks a source once what a model consists of, and remembers why it could not be told."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from controller.credentials import Secrets
from controller.manifests import Manifests
from controller.models.view import Trouble
from controller.placement.demand import Demand, Resolution
from shared.errors import LarderError, RateLimited
from shared.manifest import Manifest
from shared.sources.port import Credentials
from shared.sources.registry import open_source
from shared.sources.settings import SourceSettings
from shared.uri import parse_uri

_SOON_S, _SOON_CAP_S = 1.0, 300.0
_LATE_S, _LATE_CAP_S = 60.0, 1800.0
_LARGEST_EXPONENT = 20
_SETTLE_S = 10.0  # a source that moves all the time is not asked all the time


@dataclass(frozen=True, slots=True)
class Attempt:
    """The last attempt for one generation of one object; times on the loop's clock."""

    generation: int
    trouble: Trouble | None
    failures: int
    not_before: float


@dataclass(slots=True)
class Resolver:
    """Resolves in threads; a failure is kept until its time has come or the object changes."""

    secrets: Secrets
    manifests: Manifests
    settings: SourceSettings
    clock: Callable[[], float]
    uniform: Callable[[float, float], float] = random.uniform
    _attempts: dict[str, Attempt] = field(default_factory=dict, init=False)

    def trouble_of(self, uid: str, generation: int) -> Trouble | None:
        """Return why this generation of the object could not be resolved the last time."""
        last = self._attempts.get(uid)
        return last.trouble if last and last.generation == generation else None

    def wait_s(self, uid: str, generation: int) -> float:
        """Return in how many seconds this generation may be tried (again); 0 is now."""
        last = self._attempts.get(uid)
        return max(0.0, last.not_before - self.clock()) if last and last.generation == generation else 0.0

    def forget(self, uid: str) -> None:
        """Drop what is known of an object that is gone."""
        self._attempts.pop(uid, None)

    async def resolve(self, demand: Demand, generation: int) -> Resolution | None:
        """Return the resolution, its manifest stored; None after a failure, which `trouble_of` then tells."""
        try:
            credentials = await self.secrets.credentials_of(demand)
            manifest = await asyncio.to_thread(self._list, demand.uri, credentials)
            digest = await self.manifests.keep(manifest)
        except LarderError as error:
            self._remember(demand.uid, generation, error)
            return None
        self._attempts[demand.uid] = Attempt(generation, None, 0, self.clock() + _SETTLE_S)
        return Resolution(demand.uri, manifest.revision, digest, manifest.size_bytes, len(manifest.files))

    def _list(self, uri: str, credentials: Credentials) -> Manifest:
        source = open_source(parse_uri(uri), credentials, self.settings)
        try:
            return source.resolve()
        finally:
            source.close()

    def _remember(self, uid: str, generation: int, error: LarderError) -> None:
        last = self._attempts.get(uid)
        failures = last.failures + 1 if last and last.generation == generation else 1
        trouble = Trouble(error.reason, str(error), error.retryable)
        wait_s = self._delay_s(error, failures)
        self._attempts[uid] = Attempt(generation, trouble, failures, self.clock() + wait_s)

    def _delay_s(self, error: LarderError, failures: int) -> float:
        if isinstance(error, RateLimited):
            return error.after_s * self.uniform(1.0, 1.2)
        first, cap = (_SOON_S, _SOON_CAP_S) if error.retryable else (_LATE_S, _LATE_CAP_S)
        return min(cap, first * 2.0 ** min(failures - 1, _LARGEST_EXPONENT)) * self.uniform(0.5, 1.0)
