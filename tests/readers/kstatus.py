"""How kstatus reads an object: the rules of sigs.k8s.io/cli-utils/pkg/kstatus/status for kinds that it does not know.

Flux waits by them, and so does `kubectl apply` of others with `--reconcile-timeout`.
"""

from typing import Any, Literal

Status = Literal["Terminating", "InProgress", "Failed", "Current"]


def kstatus(found: dict[str, Any]) -> Status:
    """Return the status of an object as the API server has it."""
    metadata, status = found["metadata"], found.get("status", {})
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    observed, generation = status.get("observedGeneration"), metadata.get("generation")
    if generation is not None and observed is not None and observed != generation:
        return "InProgress"
    conditions = status.get("conditions", [])
    for condition in conditions:
        if condition["type"] == "Reconciling" and condition["status"] == "True":
            return "InProgress"
        if condition["type"] == "Stalled" and condition["status"] == "True":
            return "Failed"
    ready = next((c for c in conditions if c["type"] == "Ready"), None)
    return "Current" if ready is None or ready["status"] == "True" else "InProgress"
