import msgspec
import pytest

from controller.state.dra.watched_claims import WatchedResourceClaims
from shared.dra import ResourceClaim, ResourceClaimStatus
from shared.kube.objects import Key
from tests.builders.cluster import device_claim, entry, model_node

KEY = ("m", "r1")
NODE = model_node("a", entry("m"), entry("other"))


@pytest.fixture
def woken() -> list[str]:
    return []


@pytest.fixture
def claims(woken: list[str]) -> WatchedResourceClaims:
    return WatchedResourceClaims(woken.append)


def test_a_claim_holds_a_model_from_its_allocation_to_its_release(
    claims: WatchedResourceClaims, woken: list[str]
) -> None:
    claims.upsert(device_claim("c", KEY, "a", "p"))
    assert claims.in_use("a", NODE) == {KEY}
    assert claims.users_of("a", KEY) == ("ns/p",)
    assert woken == ["a"]
    claims.upsert(msgspec.structs.replace(device_claim("c", KEY, "a"), status=ResourceClaimStatus()))
    assert claims.in_use("a", NODE) == frozenset()
    assert claims.users_of("a", KEY) == ()
    assert woken == ["a", "a"]


def test_a_claim_that_moves_wakes_both_nodes(claims: WatchedResourceClaims, woken: list[str]) -> None:
    claims.upsert(device_claim("c", KEY, "a", "p"))
    woken.clear()
    claims.upsert(device_claim("c", KEY, "b", "p"))
    assert woken == ["a", "b"]
    assert claims.in_use("a", NODE) == frozenset()
    assert claims.users_of("b", KEY) == ("ns/p",)


def test_claims_without_models_are_not_kept(claims: WatchedResourceClaims, woken: list[str]) -> None:
    claims.upsert(ResourceClaim(metadata=device_claim("c", KEY, "a").metadata))
    claims.replace([ResourceClaim(metadata=device_claim("c", KEY, "a").metadata)])
    assert len(claims) == 0
    assert woken == []


def test_a_claim_that_is_deleted_or_missing_from_a_new_list_ends_its_use(
    claims: WatchedResourceClaims, woken: list[str]
) -> None:
    claims.replace([device_claim("c", KEY, "a", "p"), device_claim("d", KEY, "a", "q")])
    claims.remove(Key("ns", "c"))
    assert claims.users_of("a", KEY) == ("ns/q",)
    claims.replace([])
    assert claims.users_of("a", KEY) == ()
    assert woken == ["a"] * 4


def test_a_change_of_labels_alone_queues_no_key(claims: WatchedResourceClaims, woken: list[str]) -> None:
    claims.upsert(device_claim("c", KEY, "a", "p"))
    woken.clear()
    claims.upsert(device_claim("c", KEY, "a", "p", labels={"a": "b"}))
    assert woken == []
