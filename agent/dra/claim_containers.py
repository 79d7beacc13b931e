"""Finds the containers of a pod that use a request of a claim: pure functions of the pod's JSON."""

from collections.abc import Iterator

from shared.json_object import ReadOnlyJson


def containers_of(pod: ReadOnlyJson, claim: str, request: str) -> list[str]:
    """Return the names of the containers that use a request of a claim, init containers first.

    Args:
        pod: The pod.
        claim: The name of the ResourceClaim.
        request: The request's name as in the allocation, which is `main/sub` if the request has alternatives.
    """
    main = request.partition("/")[0]
    extended = _extended_containers(pod, claim, main)
    entries = _entries(pod, claim)
    named = (
        container["name"]
        for container in _containers(pod)
        for use in (container.get("resources") or {}).get("claims") or ()
        if use.get("name") in entries and use.get("request", main) in ("", main)
    )
    return list(dict.fromkeys([*named, *extended]))


def _containers(pod: ReadOnlyJson) -> Iterator[ReadOnlyJson]:
    spec = pod.get("spec") or {}
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _entries(pod: ReadOnlyJson, claim: str) -> set[str]:
    """Return the names by which the pod's containers refer to a claim."""
    generated = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    named = (pod.get("spec") or {}).get("resourceClaims") or ()
    return {each["name"] for each in (*generated, *named) if each.get("resourceClaimName") == claim}


def _extended_containers(pod: ReadOnlyJson, claim: str, request: str) -> list[str]:
    """Return the containers that got the request through an extended resource; their specs do not name the claim."""
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    if status.get("resourceClaimName") != claim:
        return []
    mappings = status.get("requestMappings") or ()
    return [each.get("containerName", "") for each in mappings if each.get("requestName") == request]
