"""Creating the claim of a ModelCache and its volume."""

from pathlib import Path
from typing import Any, cast

import pytest

from controller.modelcaches.act import ModelCacheActor
from controller.modelcaches.objects import ClaimTemplate, StorageManifest, cache_labels
from controller.placement.volume_names import volume_names
from controller.provisioning.exclusive_names import RefusedName
from shared.api.core import VOLUMES, claims_in
from tests.builders.api_server import Objects, connected
from tests.builders.model_caches import cache

CSI = {"driver": "s3.csi.aws.com", "volumeHandle": "h"}
PLAIN, HASHED = volume_names("team", "llama")
THEIRS = {"metadata": {"name": PLAIN}, "spec": {"claimRef": {"namespace": "llama-team", "name": "llama"}}}


async def provisioned(server: Objects, folder: Path) -> list[str]:
    """Return the volume that a cache with a pvSpec creates, if any, and the one that its claim names."""
    made: list[str] = []

    def created(body: dict[str, Any]) -> dict[str, Any]:
        made.append(body["spec"].get("volumeName") or body["metadata"]["name"])
        return body

    server.posts = {VOLUMES: created, claims_in("team"): created}
    none = cast("Any", None)
    async with connected(server.answer, folder) as kube:
        actor = ModelCacheActor(kube, none, none, none, none)
        await actor.provision(StorageManifest(cache().metadata, "llama", 1, ClaimTemplate("team", {}, {"csi": CSI})))
    return made


async def test_a_volume_is_named_after_claim_and_namespace(tmp_path: Path) -> None:
    assert await provisioned(Objects(), tmp_path) == [PLAIN, PLAIN]


async def test_a_cache_of_another_namespace_whose_volume_has_the_same_name_blocks_none(tmp_path: Path) -> None:
    """Claim `llama` in namespace `my-team` and claim `llama-my` in `team` have the same `<claim>-<namespace>`."""
    assert await provisioned(Objects({f"{VOLUMES}/{PLAIN}": THEIRS}), tmp_path) == [HASHED, HASHED]


async def test_a_volume_that_exists_already_is_used_under_either_name(tmp_path: Path) -> None:
    labels = cache_labels(cache().metadata)
    ours = {"metadata": {"name": HASHED, "labels": labels}, "spec": {"claimRef": {"namespace": "team"}}}
    assert await provisioned(Objects({f"{VOLUMES}/{HASHED}": ours}), tmp_path) == [HASHED]


async def test_a_cache_is_refused_if_others_have_both_names(tmp_path: Path) -> None:
    with pytest.raises(RefusedName, match=f"{PLAIN} and {HASHED} exists"):
        await provisioned(Objects({f"{VOLUMES}/{name}": THEIRS for name in (PLAIN, HASHED)}), tmp_path)
