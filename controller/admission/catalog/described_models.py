"""Describes declared models as pods see them, from the cluster state."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.admission.catalog.port import CatalogModel
from controller.claims.result import READING, WAITS, is_read_later, takes_pods
from controller.placement.claim_place import place_of
from controller.placement.demand import Demand
from controller.placement.name_conflicts import difference
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.api.base_model import BaseModel
from shared.api.kinds import MODEL_CACHE
from shared.api.meta import ModelStatus, condition_of
from shared.api.model_cache import ModelCache
from shared.kube.objects import Key

_CACHE = "ClusterModelCache"
_FEW = 100


@dataclass(slots=True)
class DescribedModels:
    """Describes models of every kind, each with the reason why pods cannot get it, if they cannot."""

    cluster: ClusterState
    _known: dict[Key, tuple[ModelCache, CatalogModel]] = field(default_factory=dict, init=False)

    def base_model(self, namespace: str, name: str, kind: str = "") -> CatalogModel | None:
        """Return the namespace's BaseModel, else the ClusterBaseModel, else None; only of `kind`, if given."""
        both = ModelKey("BaseModel", namespace, name), ModelKey("ClusterBaseModel", "", name)
        keys = [key for key in both if kind in ("", key.kind)]
        for key in keys:
            if key in self.cluster.models.unmanaged:
                return _elsewhere(key)
            if (found := self.find(key)) is not None:
                return found
        return next((_elsewhere(key) for key in keys if self.cluster.ownership.is_foreign(key.kind)), None)

    def names(self, namespace: str) -> Iterable[str]:
        """Return the names of the models that a namespace sees."""
        own = {cache.metadata.name for cache in self.cluster.model_caches_in(namespace)}
        return own | {key.name for key in self.cluster.models.demands if key.namespace in ("", namespace)}

    def cluster_model_caches(self) -> Iterable[CatalogModel]:
        """Return every ClusterModelCache, including those being deleted."""
        found = (self.find(key) for key in list(self.cluster.models.demands) if key.kind == _CACHE)
        return [model for model in found if model is not None]

    def model_caches(self, namespace: str) -> Iterable[CatalogModel]:
        """Return the ModelCaches of a namespace, including those being deleted."""
        if len(self._known) > 2 * len(self.cluster.model_caches) + _FEW:
            self._known.clear()  # most are of caches that are gone
        return [self._known_model_cache(cache) for cache in self.cluster.model_caches_in(namespace)]

    def find(self, key: ModelKey) -> CatalogModel | None:
        """Return a declared model of any kind, or None."""
        if key.kind == MODEL_CACHE.kind:
            cache = self.cluster.model_caches.get(Key(key.namespace, key.name))
            return self._model_cache(cache) if cache is not None else None
        demand, declared = self.cluster.models.demands.get(key), self.cluster.declared(key)
        if demand is None or declared is None:
            return None
        reason, message = self._unusable_reason(demand, declared.status)
        if isinstance(declared, BaseModel):
            written, mount_path = declared.spec.storage.storage_uri, declared.spec.storage.path
        else:
            written, mount_path = declared.spec.storage_uri, ""
        return CatalogModel(
            kind=key.kind,
            namespace=key.namespace,
            name=key.name,
            id=demand.id,
            uri=demand.uri or written,
            serving_revision=demand.serving,
            claim_revision=demand.claim_revision,
            mount_path=mount_path,
            groups=demand.groups,
            node_selector=demand.node_selector,
            node_affinity=demand.node_affinity,
            disabled=demand.disabled,
            deleting=demand.deleting,
            reason=reason,
            message=message,
        )

    def _known_model_cache(self, cache: ModelCache) -> CatalogModel:
        """Return a ModelCache as admission sees it, reused until it changes: a namespace may have thousands."""
        before, known = self._known.get(cache.key, (None, None))
        if known is None or before is not cache:
            known = self._model_cache(cache)
            self._known[cache.key] = cache, known
        return known

    def _model_cache(self, cache: ModelCache) -> CatalogModel:
        demand, status = self.cluster.models.demand_of_model_cache(cache), cache.status
        ready = condition_of(status.conditions, "Ready")
        reason, message = ("Pending", "the controller has not processed it yet") if ready is None else ("", "")
        if ready is not None and ready.status != "True":
            reason, message = ready.reason, ready.message
        return CatalogModel(
            kind=demand.kind,
            namespace=demand.namespace,
            name=demand.name,
            id=demand.id,
            uri=demand.uri or cache.spec.storage_uri,
            serving_revision=demand.serving,
            deleting=demand.deleting,
            reason=reason,
            message=message,
            claim=status.claim,
        )

    def _unusable_reason(self, demand: Demand, status: ModelStatus) -> tuple[str, str]:
        """Return why pods cannot get the model at all; one that serves or is still being fetched has none."""
        if demand.invalid:
            return "InvalidURI", demand.invalid
        if demand.refused and not demand.serving:
            return "SourceNotAllowed", demand.refused
        other = self.cluster.models.conflict(demand)
        if other is not None:
            message = f"{other.kind} {other.name} is older and has the same model id with {difference(demand, other)}"
            return "NameConflict", message
        if demand.on_claim:
            return self._unusable_claim_reason(demand, status)
        resolved = condition_of(status.conditions, "Resolved")
        if not demand.serving and resolved is not None and resolved.message:
            return resolved.reason, resolved.message
        return "", ""

    def _unusable_claim_reason(self, demand: Demand, status: ModelStatus) -> tuple[str, str]:
        """Return why pods cannot mount the claim; if a pod must bind it first, one is admitted and the others wait.

        Several may be admitted at the same moment, because the informer shows the first one a little later.
        """
        ready = condition_of(status.conditions, "Ready")
        if ready is None or status.source != demand.uri:
            return READING, f"the controller has not checked {demand.uri} yet"
        if not takes_pods(ready):
            return ready.reason, ready.message
        if ready.reason == WAITS and is_read_later(status.conditions):
            place = place_of(demand.uri, demand.namespace)
            if first := self.cluster.pod_users.first_user_of(demand.id, place.namespace):
                message = (
                    f"pod {first} binds PVC {place.claim}; others are admitted once a Job has read {place.sub_path}"
                )
                return WAITS, message
        return "", ""


def _elsewhere(key: ModelKey) -> CatalogModel:
    """Return a placeholder for another product's model; only its name is used."""
    return CatalogModel(key.kind, key.namespace, key.name, id="", uri="", managed=False)
