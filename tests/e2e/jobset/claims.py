"""The claims of the pods of a JobSet."""

from rig.larder.site import Site
from shared.json_object import Json

NAMESPACE = "/api/v1/namespaces/default"


def claims_of(site: Site, name: str) -> dict[str, Json]:
    """Return the metadata of a JobSet's claims by name."""
    claims = site.api.get(f"{NAMESPACE}/persistentvolumeclaims")["items"]
    return {c["metadata"]["name"]: c["metadata"] for c in claims if f"-{name}-" in c["metadata"]["name"]}
