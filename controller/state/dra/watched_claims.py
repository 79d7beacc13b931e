"""The watched ResourceClaims that hold models as devices: known from memory when a use begins and ends."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from controller.state.dra.claim_users import holders
from controller.state.index import Index
from controller.state.keys import EntryKey
from shared.api.model_node import ModelNode
from shared.dra import ResourceClaim
from shared.kube.cache import Cache
from shared.kube.objects import Key


@dataclass(slots=True)
class WatchedResourceClaims:
    """A sink of ResourceClaims that keeps only those with models; `changed` gets each node where a use changed."""

    changed: Callable[[str], None]
    _claims: Cache[ResourceClaim] = field(init=False)
    _by_node: Index[str, Key] = field(default_factory=Index, init=False)

    def __post_init__(self) -> None:
        self._claims = Cache(self._on_change)

    def replace(self, objects: Sequence[ResourceClaim], unreadable: Collection[Key] = ()) -> None:
        """Replace the contents with those of the claims that hold models."""
        self._claims.replace([claim for claim in objects if claim.model_nodes], unreadable)

    def upsert(self, claim: ResourceClaim) -> None:
        """Store the new state of a claim."""
        if claim.model_nodes:
            self._claims.upsert(claim)
        else:
            self._claims.remove(claim.key)

    def remove(self, key: Key) -> None:
        """Forget a claim."""
        self._claims.remove(key)

    def __len__(self) -> int:
        return len(self._claims)

    def in_use(self, name: str, model_node: ModelNode) -> frozenset[EntryKey]:
        """Return the entries of a node that claims hold."""
        claims = self._on(name)
        return frozenset(holders(claims, name, (e.key for e in model_node.spec.entries))) if claims else frozenset()

    def users_of(self, name: str, key: EntryKey) -> tuple[str, ...]:
        """Return who holds an entry on a node, as `namespace/name` of the pods."""
        return holders(self._on(name), name, [key]).get(key, ())

    def _on(self, name: str) -> list[ResourceClaim]:
        return [claim for key in self._by_node.of(name) if (claim := self._claims.get(key)) is not None]

    def _on_change(self, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        known = after or before
        if known is None:
            return
        old, new = (set(claim.model_nodes if claim else ()) for claim in (before, after))
        self._by_node.update(known.key, old, new)
        if before is None or after is None or before.status != after.status:
            for name in sorted(old | new):
                self.changed(name)
