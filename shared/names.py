"""The names of models on nodes, in directories and on pods."""

import hashlib
import re

READY_PREFIX = "model-cache-ready-"
SNAPSHOT_PREFIX = "snapshot.larder.dev/"
FETCHING_PREFIX = "fetching.larder.dev/"
DRAINING_PREFIX = "draining.larder.dev/"
NODE_PREFIXES = (READY_PREFIX, SNAPSHOT_PREFIX, FETCHING_PREFIX, DRAINING_PREFIX)  # that agents set on their Nodes
USES_PREFIX = "model.larder.dev/"
USER_LABEL = USES_PREFIX + "any"  # on every pod that uses a model
INJECTED_LABEL = "models.example.com/injected"  # on every pod into which Models were injected

_LONGEST_ID = 45
_CUT_ID = 28
_HASH_HEX = 16
_LABEL_HEX = 20
_MANIFEST_NAME = re.compile(r"manifest-([0-9a-f]{64})")


def model_id(namespace: str, name: str) -> str:
    """Return the id of a model: its name, prefixed with its namespace if it has one."""
    return f"{namespace}_{name}" if namespace else name


def cache_id(namespace: str, name: str) -> str:
    """Return the id of a ModelCache, which no other model has: names contain no underscore."""
    return f"{namespace}_modelcache_{name}"


def namespace_of(identity: str) -> str:
    """Return the namespace in a model id; empty for a cluster-scoped model."""
    return identity.rpartition("_")[0]


def short_id(identity: str) -> str:
    """Return an id that fits a label key and a directory name, kept unique by a hash if it had to be cut."""
    if len(identity) <= _LONGEST_ID:
        return identity
    return f"{identity[:_CUT_ID]}-{hashlib.sha256(identity.encode()).hexdigest()[:_HASH_HEX]}"


def ready_label(identity: str) -> str:
    """Return the node label key for a complete snapshot of this model that is meant to stay."""
    return READY_PREFIX + short_id(identity)


def snapshot_label(identity: str, revision: str) -> str:
    """Return the node label key for exactly these files."""
    return SNAPSHOT_PREFIX + _snapshot_hex(identity, revision)


def fetching_label(identity: str, revision: str) -> str:
    """Return the node label key that says that these files are being downloaded; only preferences may name it."""
    return FETCHING_PREFIX + _snapshot_hex(identity, revision)


def draining_label(identity: str, revision: str) -> str:
    """Return the node label key that says that these files are about to be removed, which keeps new pods away."""
    return DRAINING_PREFIX + _snapshot_hex(identity, revision)


def _snapshot_hex(identity: str, revision: str) -> str:
    return hashlib.sha256(f"{identity}\0{revision}".encode()).hexdigest()[:_LABEL_HEX]


def uses_label(identity: str) -> str:
    """Return the pod label key that selects the users of a model."""
    return USES_PREFIX + hashlib.sha256(identity.encode()).hexdigest()[:_LABEL_HEX]


def snapshot_path(identity: str, revision: str) -> str:
    """Return the path of a snapshot below the root of the store."""
    return f"models/{short_id(identity)}/{revision}"


def manifest_name(digest: str) -> str:
    """Return the name of the ConfigMap that stores a manifest."""
    return f"manifest-{digest}"


def manifest_digest(name: str) -> str:
    """Return the digest in the name of a manifest ConfigMap; empty for any other name."""
    found = _MANIFEST_NAME.fullmatch(name)
    return found[1] if found else ""
