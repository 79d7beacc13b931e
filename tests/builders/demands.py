"""Builders of the demands of models on nodes."""

from typing import Any

from controller.placement.demand import Demand


def demand(name: str = "m", **fields: Any) -> Demand:
    """Return the demand of a ClusterModelCache that is not resolved, unless the fields say otherwise."""
    known: dict[str, Any] = {
        "kind": "ClusterModelCache",
        "namespace": "",
        "uid": f"uid-{name}",
        "created": "2026-01-01T00:00:00Z",
        "id": name,
        "uri": f"hf://o/{name}@main",
    }
    return Demand(name=name, **(known | fields))
