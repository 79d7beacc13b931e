"""The workload that owns claims, found through owner references that a tenant may have written."""

from pathlib import Path
from typing import Any

import pytest

from controller.claimtemplates.templates import ClaimOwner
from controller.replica_claims.owners import NOT_READABLE, OWNER_GONE, NoWorkload, WorkloadOwners
from controller.replica_claims.workload_kinds import WorkloadKind, WorkloadKinds
from tests.builders.api_server import Objects, serving

KINDS = WorkloadKinds(
    (
        WorkloadKind("batch/v1", "Job", "jobs"),
        WorkloadKind("apps/v1", "StatefulSet", "statefulsets"),
        WorkloadKind("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets"),
        WorkloadKind("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs"),
        WorkloadKind("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets"),
    )
)
PATHS = {
    "Job": ("batch/v1", "/apis/batch/v1/namespaces/team/jobs"),
    "CronJob": ("batch/v1", "/apis/batch/v1/namespaces/team/cronjobs"),
    "StatefulSet": ("apps/v1", "/apis/apps/v1/namespaces/team/statefulsets"),
    "Pod": ("v1", "/api/v1/namespaces/team/pods"),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets"),
    "TrainJob": ("trainer.kubeflow.org/v1alpha1", "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs"),
    "LeaderWorkerSet": (
        "leaderworkerset.x-k8s.io/v1",
        "/apis/leaderworkerset.x-k8s.io/v1/namespaces/team/leaderworkersets",
    ),
}


def reference(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    known = {"apiVersion": PATHS[kind][0], "kind": kind, "name": name, "uid": f"uid-{kind}-{name}", "controller": True}
    return known | fields


def chain(*links: tuple[str, str]) -> Objects:
    """Return a server with these objects, each controlled by the next."""
    objects = Objects()
    for (kind, name), above in zip(links, [*links[1:], None], strict=True):
        owners = [reference(*above)] if above is not None else []
        metadata = {"name": name, "namespace": "team", "uid": f"uid-{kind}-{name}", "ownerReferences": owners}
        objects.objects[f"{PATHS[kind][1]}/{name}"] = {"metadata": metadata}
    return objects


async def owner_of(
    server: Objects, folder: Path, controller: dict[str, Any], clock: float = 0.0
) -> ClaimOwner | NoWorkload:
    async with serving(server, folder) as kube:
        return await WorkloadOwners(kube, KINDS, lambda: clock).find_owner("team", controller)


@pytest.mark.parametrize(
    ("links", "kind", "name"),
    [
        ([("Job", "train")], "Job", "train"),
        ([("Job", "nightly-1"), ("CronJob", "nightly")], "Job", "nightly-1"),
        ([("Job", "t-node-0"), ("JobSet", "t")], "JobSet", "t"),
        ([("Job", "t-node-0"), ("JobSet", "t"), ("TrainJob", "t")], "TrainJob", "t"),
        ([("StatefulSet", "l"), ("LeaderWorkerSet", "l")], "LeaderWorkerSet", "l"),
        (
            [("StatefulSet", "l-0"), ("Pod", "l-0"), ("StatefulSet", "l"), ("LeaderWorkerSet", "l")],
            "LeaderWorkerSet",
            "l",
        ),
    ],
    ids=lambda found: found if isinstance(found, str) else "-".join(kind for kind, _ in found),
)
async def test_the_topmost_listed_controller_owns(
    tmp_path: Path, links: list[tuple[str, str]], kind: str, name: str
) -> None:
    found = await owner_of(chain(*links), tmp_path, reference(*links[0]))
    assert found == ClaimOwner(PATHS[kind][0], kind, name, f"uid-{kind}-{name}")


async def test_a_controller_with_another_uid_is_reported_as_replaced(tmp_path: Path) -> None:
    found = await owner_of(chain(("Job", "train")), tmp_path, reference("Job", "train", uid="former"))
    assert isinstance(found, NoWorkload)
    assert (found.reason, "was replaced" in found.message) == (OWNER_GONE, True)


async def test_a_controller_that_is_deleted_or_being_deleted_owns_nothing(tmp_path: Path) -> None:
    gone = await owner_of(chain(("Job", "other")), tmp_path, reference("Job", "train"))
    server = chain(("Job", "train"))
    server.objects[f"{PATHS['Job'][1]}/train"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    going = await owner_of(server, tmp_path, reference("Job", "train"))
    for found, word in ((gone, "does not exist"), (going, "is being deleted")):
        assert isinstance(found, NoWorkload)
        assert (found.reason, word in found.message) == (OWNER_GONE, True)


async def test_an_unreadable_controller_is_reported_with_the_chart_value_to_set(tmp_path: Path) -> None:
    server = chain(("Job", "train"))
    server.refused[f"{PATHS['Job'][1]}/train"] = 403
    found = await owner_of(server, tmp_path, reference("Job", "train"))
    assert isinstance(found, NoWorkload)
    assert (found.reason, "volumeClaimTemplates.workloads" in found.message) == (NOT_READABLE, True)


async def test_a_cycle_of_controllers_does_not_loop_forever(tmp_path: Path) -> None:
    server = chain(("Job", "a"), ("JobSet", "b"), ("Job", "a"))
    server.objects[f"{PATHS['Job'][1]}/a"]["metadata"]["ownerReferences"] = [reference("JobSet", "b")]
    found = await owner_of(server, tmp_path, reference("Job", "a"))
    assert isinstance(found, NoWorkload)
    assert "more than 8 levels of controllers" in found.message
    assert len(server.asked) == 8


@pytest.mark.parametrize("name", ["../../../api/v1/namespaces/kube-system/secrets/x", "a/b", "a?b=c", "%2e%2e"])
async def test_a_name_cannot_lead_to_another_path(tmp_path: Path, name: str) -> None:
    server = chain(("Job", "train"))
    assert isinstance(await owner_of(server, tmp_path, reference("Job", name)), NoWorkload)
    assert all(asked.startswith(f"GET {PATHS['Job'][1]}/") for asked in server.asked)


async def test_pods_of_one_workload_share_a_read_for_ten_seconds(tmp_path: Path) -> None:
    server, now = chain(("Job", "train")), [0.0]
    async with serving(server, tmp_path) as kube:
        owners = WorkloadOwners(kube, KINDS, lambda: now[0])
        for _ in range(500):
            await owners.find_owner("team", reference("Job", "train"))
        assert len(server.asked) == 1
        now[0] = 10.0
        await owners.find_owner("team", reference("Job", "train"))
    assert len(server.asked) == 2


async def test_a_forged_reference_does_not_affect_lookups_of_the_real_workload(tmp_path: Path) -> None:
    server = chain(("Job", "train"))
    async with serving(server, tmp_path) as kube:
        owners = WorkloadOwners(kube, KINDS, lambda: 0.0)
        forged = reference("Job", "none", uid="uid-Job-train")
        for _ in range(500):
            assert isinstance(await owners.find_owner("team", forged), NoWorkload)
        assert len(server.asked) == 1, "a missing object is not read repeatedly"
        assert isinstance(await owners.find_owner("team", reference("Job", "train")), ClaimOwner)
        assert isinstance(await owners.find_owner("elsewhere", reference("Job", "train")), NoWorkload)
        assert isinstance(await owners.find_owner("team", reference("Job", "train", uid="x" * 100_000)), NoWorkload)
