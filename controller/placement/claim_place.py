"""The location of a model on a PersistentVolumeClaim."""

from dataclasses import dataclass
from functools import lru_cache

from controller.placement.demand import Demand
from shared.uri.model_uri import PvcUri, parse_uri


@dataclass(frozen=True, slots=True)
class ClaimPath:
    """A directory or file on a PersistentVolumeClaim; `sub_path` is relative to the claim's root."""

    namespace: str
    claim: str
    sub_path: str


@lru_cache(maxsize=1024)
def place_of(uri: str, namespace: str) -> ClaimPath:
    """Return the location of a canonical `pvc://` URI; `namespace` is that of a namespaced model, else empty."""
    parsed = parse_uri(uri, cluster_scoped=not namespace)
    if not isinstance(parsed, PvcUri):
        raise TypeError(f"{uri} is not on a claim")
    return ClaimPath(parsed.namespace or namespace, parsed.claim, parsed.sub_path)


def is_on(demand: Demand, namespace: str, claim: str) -> bool:
    """Return whether a model is on this claim."""
    if not demand.on_claim:
        return False
    place = place_of(demand.uri, demand.namespace)
    return (place.namespace, place.claim) == (namespace, claim)
