"""The declared models, by key and by model id."""

from collections.abc import Callable
from dataclasses import dataclass, field

from controller.placement.allowed_sources import AllowedSources
from controller.placement.demand import Demand
from controller.placement.demand_of_kind import Declared, base_model_demand, cache_demand, model_cache_demand
from controller.placement.name_conflicts import conflict_of
from controller.state.changes import Changes
from controller.state.index import Index
from controller.state.keys import ModelKey
from controller.state.kinds.ownership import RECORD_ANNOTATION
from controller.state.models.retained import RetainedObjects
from shared.api.base_model import BaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.model_cache import ModelCache
from shared.kube.objects import Key, Object
from shared.names import model_id, short_id
from shared.selection.choice import Selection


@dataclass(slots=True)
class DeclaredModels:
    """What each declared model asks for.

    Args:
        allowed: The sources that namespaced models may name.
        files: The default for models that do not select files themselves.
        changed: Signals a change of a model after this index is up to date.
        serving_changed: Called with a model's demand before and after a change, before the signal.

    Attributes:
        demands: The models that Larder manages.
        unmanaged: Models of kinds that another product defined.
    """

    allowed: AllowedSources
    files: Selection
    changed: Changes
    serving_changed: Callable[[Demand | None, Demand | None], None]
    demands: dict[ModelKey, Demand] = field(default_factory=dict, init=False)
    unmanaged: dict[ModelKey, Declared] = field(default_factory=dict, init=False)
    _keys_of_id: Index[str, ModelKey] = field(default_factory=Index, init=False)

    def on_change(self, kind: str, before: Object | None, after: Object | None) -> None:
        """Record a change of a model that Larder manages, or managed."""
        known = after or before
        if known is None:
            return
        key = ModelKey(kind, known.metadata.namespace, known.metadata.name)
        old, new = self.demands.pop(key, None), self._demand(kind, after)
        if new is not None:
            self.demands[key] = new
        self.serving_changed(old, new)
        self._keys_of_id.update(key, (short_id(old.id),) if old else (), (short_id(new.id),) if new else ())
        self.changed.model.emit(key, old, new)

    def set_unmanaged(self, kind: str, name: Key, model: Declared | None) -> None:
        """Record a model that Larder does not manage; None if it is gone, or is managed now."""
        key = ModelKey(kind, name.namespace, name.name)
        before = self.unmanaged.pop(key, None)
        if model is not None:
            self.unmanaged[key] = model
        self.changed.unmanaged.emit(key, before, model)

    def retained(self) -> RetainedObjects:
        """Return the objects whose files stay on nodes although Larder may not manage them.

        These are objects whose source is no longer allowed, and objects of a kind that another product has taken over.
        An object of such a kind that opted in has a record; once it opts out, it is released and no longer retained.
        """
        refused = [d for d in self.demands.values() if d.refused and not d.deleting]
        lost = [
            model.metadata
            for model in self.unmanaged.values()
            if model.metadata.deletion_timestamp is None and RECORD_ANNOTATION not in model.metadata.annotations
        ]
        return RetainedObjects(
            frozenset(d.uid for d in refused) | {meta.uid for meta in lost},
            frozenset(d.id for d in refused) | {model_id(meta.namespace, meta.name) for meta in lost},
        )

    def keys_of_id(self, identity: str) -> list[ModelKey]:
        """Return the models with this model id, or with one that shortens to the same name."""
        return self._keys_of_id.of(short_id(identity))

    def same_id(self, identity: str) -> list[Demand]:
        """Return the demands with this model id, or with one that shortens to the same name."""
        return [self.demands[key] for key in self.keys_of_id(identity)]

    def conflict(self, demand: Demand) -> Demand | None:
        """Return the older demand that uses this one's id for another source or other files, or None."""
        return conflict_of(demand, self.same_id(demand.id))

    def is_shadowed(self, demand: Demand) -> bool:
        """Return whether an older object has this one's id with other files: pods with the id use those."""
        other = self.conflict(demand)
        return other is not None and other.age < demand.age

    def is_read_from_claim(self, key: ModelKey) -> bool:
        """Return whether a model is read from a claim: not if it is disabled, being deleted or in conflict."""
        demand = self.demands.get(key)
        if demand is None or not demand.on_claim or demand.disabled or demand.deleting:
            return False
        return self.conflict(demand) is None

    def demand_of_model_cache(self, cache: ModelCache) -> Demand:
        """Return the demand of a ModelCache; no node ever holds it."""
        return model_cache_demand(cache, self.allowed, self.files)

    def _demand(self, kind: str, declared: Object | None) -> Demand | None:
        match declared:
            case BaseModel():
                return base_model_demand(kind, declared, self.allowed, self.files)
            case ClusterModelCache():
                return cache_demand(kind, declared, self.files)
            case _:
                return None
