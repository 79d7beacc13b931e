"""Builders of the values that decisions are made from."""

from collections.abc import Iterable, Mapping
from typing import Any

from agent.reconciler.observation import Cause, Failure, HeldSnapshot, Key, Observation, Work, fingerprint
from shared.api.model_node import Claim, Entry, ModelNode, ModelNodeSpec
from shared.kube.objects import Meta
from shared.names import ready_label, snapshot_label

UID = "node-1"
DIGEST = "a" * 64
SOUND = HeldSnapshot(DIGEST, (), "digest")
DAMAGED = HeldSnapshot(DIGEST, ("model.safetensors",), "digest")


def entry(identity: str = "llama", revision: str = "r1", **fields: Any) -> Entry:
    """An entry that is wanted and granted by default."""
    known: dict[str, Any] = {"uri": "hf://org/llama@r1", "manifest": DIGEST, "granted": True}
    return Entry(id=identity, revision=revision, **(known | fields))


def claim(name: str = "c", secret: str = "") -> Claim:
    """One object that wants an entry."""
    return Claim(kind="ClusterModelCache", name=name, uid=name, secret=secret)


def model_node(entries: Iterable[Entry], uid: str = UID, generation: int = 3, **spec: Any) -> ModelNode:
    """A ModelNode for the node with this uid."""
    return ModelNode(
        metadata=Meta(name="n1", uid="mn-1", generation=generation),
        spec=ModelNodeSpec(node_uid=uid, entries=list(entries), **spec),
    )


def observation(
    *entries: Entry,
    held: Mapping[Key, HeldSnapshot] | None = None,
    works: Mapping[Key, Work] | None = None,
    labels: Iterable[str] = (),
    failures: Mapping[Key, Failure] | None = None,
    **fields: Any,
) -> Observation:
    """A synced observation whose ModelNode names these entries."""
    known: dict[str, Any] = {"now_s": 100.0, "node_uid": UID, "synced": True, "model_node": model_node(entries)}
    return Observation(
        labels=dict.fromkeys(labels, "true"), held=held or {}, works=works or {}, failures=failures or {},
        **(known | fields),
    )  # fmt: skip


def failure(of: Entry, due_s: float, reason: str = "Unreachable", *, transient: bool = False) -> Failure:
    """A failure of exactly this entry."""
    return Failure(Cause(reason, f"{reason} it is"), due_s, fingerprint(of), 1, transient)


def both(identity: str = "llama", revision: str = "r1") -> tuple[str, str]:
    """The ready label and the snapshot label."""
    return ready_label(identity), snapshot_label(identity, revision)
