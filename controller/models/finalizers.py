"""The finalizers that hold a model's deletion until the nodes have released it."""

from controller.state.kinds.ownership import Ownership

OWN_FINALIZER = "larder.dev/finalizer"
FINALIZERS = {
    "BaseModel": "basemodels.ome.io/finalizer",
    "ClusterBaseModel": "clusterbasemodels.ome.io/finalizer",
    "ClusterModelCache": OWN_FINALIZER,
}


def finalizer_of(ownership: Ownership, kind: str) -> str:
    """Return the finalizer for a kind; for another product's kind, one that cannot clash with that product's own."""
    return OWN_FINALIZER if ownership.is_foreign(kind) else FINALIZERS[kind]
