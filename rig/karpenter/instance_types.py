"""The machines that the provider can rent: two sizes of one kind, in one zone."""

import json
from typing import Any

ZONE = "test-zone-a"
_PRICES = {4: 1.0, 8: 2.0}  # by the number of CPUs


def instance_types() -> str:
    """Return the file of instance types."""
    return json.dumps([_instance_type(cpus, price) for cpus, price in _PRICES.items()])


def _instance_type(cpus: int, price: float) -> dict[str, Any]:
    offered = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": ZONE}
    requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in offered.items()]
    return {
        "name": f"rig-{cpus}x",
        "offerings": [{"Price": price, "Available": True, "Requirements": requirements}],
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": str(cpus), "memory": f"{4 * cpus}Gi", "ephemeral-storage": "100Gi", "pods": "110"},
    }
