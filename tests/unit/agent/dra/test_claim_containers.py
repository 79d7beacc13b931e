from typing import Any

from agent.dra.claim_containers import containers_of


def _container(name: str, *uses: tuple[str, str]) -> dict[str, Any]:
    claims = [{"name": claim} | ({"request": request} if request else {}) for claim, request in uses]
    return {"name": name, "resources": {"claims": claims}}


POD = {
    "spec": {
        "resourceClaims": [
            {"name": "m", "resourceClaimTemplateName": "t"},
            {"name": "shared", "resourceClaimName": "s"},
        ],
        "initContainers": [_container("init", ("m", ""))],
        "containers": [
            _container("main", ("m", "model")),
            _container("draft", ("m", "draft"), ("shared", "")),
            {"name": "x"},
        ],
    },
    "status": {"resourceClaimStatuses": [{"name": "m", "resourceClaimName": "p-m-abc"}]},
}


def test_a_container_uses_the_requests_that_it_names_or_all() -> None:
    assert containers_of(POD, "p-m-abc", "model") == ["init", "main"]
    assert containers_of(POD, "p-m-abc", "draft") == ["init", "draft"]
    assert containers_of(POD, "s", "any") == ["draft"]
    assert containers_of(POD, "other", "model") == []


def test_a_subrequest_counts_for_the_containers_of_its_request() -> None:
    assert containers_of(POD, "p-m-abc", "model/cached") == ["init", "main"]


def test_containers_of_an_extended_resource_claim_are_read_from_the_pod_status() -> None:
    """Pitfall 9."""
    mappings = [{"containerName": "main", "resourceName": "x/y", "requestName": "container-0-request-0"}]
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "e", "requestMappings": mappings}}
    pod = {"spec": {"containers": [{"name": "main", "resources": {}}]}, "status": status}
    assert containers_of(pod, "e", "container-0-request-0") == ["main"]
    assert containers_of(pod, "e", "other") == []
    assert containers_of(pod, "other", "container-0-request-0") == []
