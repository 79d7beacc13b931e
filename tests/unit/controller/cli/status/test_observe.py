"""What `larder status` reads, and what it reports if some of that cannot be read."""

from pathlib import Path

import pytest

from controller.cli.status.observe import VisibleModels, read_models
from shared.api.kinds import (
    BASE_MODEL,
    CLUSTER_BASE_MODEL,
    CLUSTER_MODEL_CACHE,
    MODEL,
    MODEL_CACHE,
    STATUS_KINDS,
    TRAINING_JOB,
)
from shared.json_object import Json
from shared.kube.errors import KubeError, NotFound, Refused, Unreachable
from tests.builders.api_server import Objects, listed, serving

MINE = BASE_MODEL.path_in("default")
MY_CACHES = MODEL_CACHE.path_in("default")
MY_MODELS = MODEL.path_in("default")
MY_JOBS = TRAINING_JOB.path_in("default")
MINE_AND_SHARED = (MINE, CLUSTER_BASE_MODEL.path, CLUSTER_MODEL_CACHE.path, MY_CACHES, MY_MODELS, MY_JOBS)


def has(name: str) -> Json:
    return listed({"metadata": {"name": name}})


EVERYTHING = {
    BASE_MODEL.path: has("all"),
    MINE: has("mine"),
    CLUSTER_BASE_MODEL.path: has("cbm"),
    CLUSTER_MODEL_CACHE.path: has("cmc"),
    MODEL_CACHE.path: has("mc"),
    MY_CACHES: has("mc"),
    MODEL.path: has("mdl"),
    MY_MODELS: has("mdl"),
    TRAINING_JOB.path: has("tj"),
    MY_JOBS: has("tj"),
}


async def read(server: Objects, folder: Path, *, everywhere: bool = False) -> VisibleModels:
    async with serving(server, folder) as kube:
        return await read_models(kube, everywhere=everywhere)


def names(seen: VisibleModels) -> list[str]:
    return [m.metadata.name for listing in seen.listings for m in listing.models]


async def test_models_of_one_namespace_or_of_all_are_listed(tmp_path: Path) -> None:
    for everywhere, expected in ((False, "mine"), (True, "all")):
        seen = await read(Objects(EVERYTHING), tmp_path, everywhere=everywhere)
        assert (names(seen), seen.notes) == ([expected, "cbm", "cmc", "mc", "mdl", "tj"], ())


async def test_kinds_that_are_not_served_are_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    served = {CLUSTER_MODEL_CACHE.path: has("cmc")}
    seen = await read(Objects(served), tmp_path)
    assert names(seen) == ["cmc"]
    assert seen.notes[0] == "BaseModels are not shown: the cluster does not serve basemodels.ome.io"


async def test_users_who_may_not_list_all_namespaces_see_their_own(tmp_path: Path) -> None:
    server = Objects(EVERYTHING)
    server.refused[BASE_MODEL.path] = 403
    seen = await read(server, tmp_path, everywhere=True)
    assert names(seen) == ["mine", "cbm", "cmc", "mc", "mdl", "tj"]
    assert seen.notes[0].startswith("BaseModels: only those in namespace default are shown: you may not list")


@pytest.mark.parametrize(
    ("codes", "kind"),
    [
        (dict.fromkeys(MINE_AND_SHARED, 403), Refused),
        ({MINE: 401}, Refused),
        ({CLUSTER_BASE_MODEL.path: 500}, Unreachable),
        (dict.fromkeys(MINE_AND_SHARED, 404), NotFound),
    ],
)
async def test_the_command_fails_if_nothing_can_be_read_or_the_server_fails(
    tmp_path: Path, codes: dict[str, int], kind: type[KubeError]
) -> None:
    server = Objects(EVERYTHING)
    server.refused.update(codes)
    with pytest.raises(kind):
        await read(server, tmp_path)
    assert len(server.asked) == len(STATUS_KINDS)
