from pathlib import Path
from typing import Any

import pytest

from controller.state.dra.claim_users import ResourceClaimUsers
from shared.dra import DRIVER, RESOURCE_CLAIMS, device_name
from shared.kube.errors import Refused
from tests.builders.api_server import Objects, listed, serving

KEY, OTHER, PRIVATE = ("m", "r1"), ("m", "r2"), ("ns_m", "r1")


def _claim(
    name: str,
    *pods: str,
    node: str = "a",
    driver: str = DRIVER,
    namespace: str = "ns",
    key: tuple[str, str] = KEY,
) -> dict[str, Any]:
    result = {"driver": driver, "pool": node, "device": device_name(*key), "shareID": "s"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": pod, "uid": pod} for pod in pods],
    }
    return {"metadata": {"name": name, "namespace": namespace}, "status": status}


async def _on_node(
    folder: Path, *claims: dict[str, Any], enabled: bool = True
) -> dict[tuple[str, str], tuple[str, ...]]:
    objects = Objects({RESOURCE_CLAIMS: listed(*claims)})
    async with serving(objects, folder) as kube:
        return await ResourceClaimUsers(kube, enabled).on_node("a", [KEY, OTHER, PRIVATE])


async def test_pods_that_hold_a_device_of_the_node_are_users(tmp_path: Path) -> None:
    assert await _on_node(tmp_path, _claim("c", "p", "q"), _claim("d", "p")) == {KEY: ("ns/p", "ns/q")}


async def test_a_claim_without_a_known_pod_counts_as_a_user(tmp_path: Path) -> None:
    assert await _on_node(tmp_path, _claim("c")) == {KEY: ("ns/c (claim)",)}


async def test_claims_of_other_nodes_or_drivers_or_without_devices_do_not_count(tmp_path: Path) -> None:
    empty = {"metadata": {"name": "e", "namespace": "ns"}, "status": {}}
    assert await _on_node(tmp_path, _claim("c", node="b"), _claim("d", driver="gpu.example.org"), empty) == {}


async def test_claims_of_other_namespaces_are_no_users_of_a_private_model(tmp_path: Path) -> None:
    """The driver refuses them, so they must not block its removal, nor put their pods' names into its conditions."""
    claims = [_claim("c", "p", key=PRIVATE), _claim("d", "q", key=PRIVATE, namespace="foreign")]
    assert await _on_node(tmp_path, *claims) == {PRIVATE: ("ns/p",)}
    assert await _on_node(tmp_path, *claims[1:]) == {}


async def test_no_request_is_made_where_device_claims_are_disabled(tmp_path: Path) -> None:
    assert await _on_node(tmp_path, _claim("c"), enabled=False) == {}


async def test_without_the_claims_api_there_are_no_users_and_a_refused_list_is_an_error(tmp_path: Path) -> None:
    objects = Objects()
    async with serving(objects, tmp_path) as kube:
        users = ResourceClaimUsers(kube, enabled=True)
        assert await users.on_node("a", [KEY]) == {}
        objects.refused[RESOURCE_CLAIMS] = 403
        with pytest.raises(Refused):
            await users.on_node("a", [KEY])


async def test_the_users_of_a_model_are_those_of_all_nodes_in_its_namespace(tmp_path: Path) -> None:
    namespaced = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"
    claims = [_claim("c", "p"), _claim("d", "q", node="b")]
    objects = Objects({namespaced: listed(*claims), RESOURCE_CLAIMS: listed(*claims, _claim("e", "x", namespace="n2"))})
    async with serving(objects, tmp_path) as kube:
        assert await ResourceClaimUsers(kube, enabled=True).of_model([KEY], "ns") == ["ns/p", "ns/q"]
        assert await ResourceClaimUsers(kube, enabled=True).of_model([KEY], "") == ["n2/x", "ns/p", "ns/q"]
