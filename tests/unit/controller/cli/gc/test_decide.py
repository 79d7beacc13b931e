"""Which claims are orphaned, and which of those may be deleted."""

from typing import Any

from controller.cli.gc.command import lines_of
from controller.cli.gc.decide import GoneOwner, LiveOwner, ObservedClaim, Owner, UnknownOwner, orphaned_claims

GONE = GoneOwner("Model llama")


def claim(name: str, owner: Owner = GONE, **fields: Any) -> ObservedClaim:
    return ObservedClaim("team", name, f"uid-{name}", "7", "20Gi", owner, **fields)


def kept(*claims: ObservedClaim) -> dict[str, str]:
    return {orphan.claim.name: orphan.keep_reason for orphan in orphaned_claims(claims)}


def test_a_claim_with_a_living_owner_is_not_listed() -> None:
    assert kept(claim("a", LiveOwner()), claim("b")) == {"b": ""}


def test_a_claim_that_is_mounted_or_being_deleted_is_kept() -> None:
    found = kept(claim("a", mounted_by=("p", "q")), claim("b", deleting=True), claim("c", mounted_by=("p",)))
    assert found == {"a": "mounted by pod p and 1 more", "b": "is being deleted", "c": "mounted by pod p"}


def test_a_claim_whose_owner_cannot_be_read_is_kept_with_the_reason() -> None:
    assert kept(claim("a", UnknownOwner("Model x", "forbidden"))) == {"a": "forbidden"}


def test_the_table_shows_the_result_for_each_claim() -> None:
    (orphan,) = orphaned_claims([claim("model-llama")])
    assert list(lines_of([(orphan, "deleted")], 0)) == [
        "NAMESPACE  CLAIM        SIZE  OWNER        RESULT",
        "team       model-llama  20Gi  Model llama  deleted",
    ]
    assert list(lines_of([], 0)) == []
