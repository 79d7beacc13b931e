"""The namespace of one test, as a user sees it."""

from dataclasses import dataclass

from rig.larder.site import Site
from shared.json_object import Json
from tests.builders.replica_claims import GATE

_GROUPS = {"jobs": "/apis/batch/v1", "statefulsets": "/apis/apps/v1"}


@dataclass(frozen=True)
class Tenant:
    """A namespace."""

    site: Site
    namespace: str

    def path(self, resource: str, name: str = "") -> str:
        """Return the API path of a collection, or of an object."""
        root = _GROUPS.get(resource, "/api/v1")
        return f"{root}/namespaces/{self.namespace}/{resource}" + (f"/{name}" if name else "")

    def create(self, resource: str, body: Json) -> Json:
        """Create an object."""
        return self.site.api.create(self.path(resource), body)

    def items(self, resource: str) -> list[Json]:
        """Return the objects of a kind."""
        found: list[Json] = self.site.api.get(self.path(resource))["items"]
        return found

    def names(self, resource: str) -> set[str]:
        """Return the names of the objects of a kind."""
        return {item["metadata"]["name"] for item in self.items(resource)}

    def claims(self) -> dict[str, Json]:
        """Return the claims by name."""
        return {claim["metadata"]["name"]: claim for claim in self.items("persistentvolumeclaims")}

    def gated(self) -> list[Json]:
        """Return the pods behind Larder's gate."""
        return [pod for pod in self.items("pods") if GATE in gates(pod)]

    def released(self, count: int) -> list[Json]:
        """Wait until this many pods exist and are released, ignoring those being deleted, and return them."""
        found: list[Json] = []

        def all_released() -> bool:
            found[:] = [pod for pod in self.items("pods") if "deletionTimestamp" not in pod["metadata"]]
            return len(found) == count and not any(GATE in gates(pod) for pod in found)

        self.site.until(all_released, f"{count} pods to be released")
        return found

    def reasons(self) -> dict[str, str]:
        """Return the newest message of each reason among Larder's Events."""
        ours = [e for e in self.items("events") if e.get("source", {}).get("component") == "larder-controller"]
        return {event["reason"]: event["message"] for event in ours}

    def wait_reason(self, reason: str) -> str:
        """Wait for an Event with a reason, and return its message."""
        self.site.until(lambda: reason in self.reasons(), f"an Event {reason}")
        return self.reasons()[reason]


def gates(pod: Json) -> list[str]:
    """Return the scheduling gates of a pod."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]
