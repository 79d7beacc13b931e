"""Namespaces that enforce a level of pod security, and the fields that `restricted` requires of pods."""

from rig.node.installation import Installation
from shared.json_object import Json

SECURITY: Json = {
    "runAsNonRoot": True,
    "runAsUser": 123456,
    "fsGroup": 2000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONFINED: Json = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def namespace_of_level(site: Installation, level: str) -> str:
    """Create a namespace that enforces a level of pod security, and return its name."""
    name = site.name(level)
    labels = {"pod-security.kubernetes.io/enforce": level}
    site.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    site.until(lambda: site.api.answers(f"/api/v1/namespaces/{name}/serviceaccounts/default"), "its account")
    return name
