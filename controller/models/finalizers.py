"""The finalizers that hold a declared model until nodes have let go of it."""

from controller.state.ownership import Ownership

OWN_FINALIZER = "larder.dev/finalizer"
FINALIZERS = {
    "BaseModel": "basemodels.ome.io/finalizer",
    "ClusterBaseModel": "clusterbasemodels.ome.io/finalizer",
    "ClusterModelCache": OWN_FINALIZER,
}


def finalizer_of(ownership: Ownership, kind: str) -> str:
    """Return the finalizer for a kind; where another product defined it, one that cannot be that product's own."""
    return OWN_FINALIZER if ownership.is_foreign(kind) else FINALIZERS[kind]
