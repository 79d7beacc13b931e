"""`larder gc` on the real API server: which claims it finds, keeps and deletes."""

from collections.abc import Iterator
from typing import Any

import pytest

from controller.cli.gc.command import collect, main
from rig.api import Api
from rig.control_plane import ControlPlane
from rig.processes import wait_until
from shared.kube.transport import connect

NAMESPACE = "gc"
CLAIMS, PODS = (f"/api/v1/namespaces/{NAMESPACE}/{kind}" for kind in ("persistentvolumeclaims", "pods"))
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
OURS = {"app.kubernetes.io/managed-by": "larder", "larder.dev/model-cache": "uid"}


@pytest.fixture
def api(control_plane: ControlPlane) -> Iterator[Api]:
    api = control_plane.api
    api.ensure("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
    wait_until(lambda: api.answers(path), 60, "the namespace's account")
    yield api
    for path in (PODS, CLAIMS, CONFIG_MAPS):
        api.delete(path)


def owner(api: Api, name: str) -> dict[str, Any]:
    """Create an object that can own claims: a ConfigMap has no controller and no finalizer."""
    made = api.create(CONFIG_MAPS, {"metadata": {"name": name}})
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made["metadata"]["uid"]}


def claim(api: Api, name: str, *owners: dict[str, Any], labels: dict[str, str] | None = None) -> dict[str, Any]:
    body = {
        "metadata": {"name": name, "labels": OURS if labels is None else labels, "ownerReferences": list(owners)},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    return api.create(CLAIMS, body)


def mount(api: Api, pod: str, name: str) -> None:
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}],
    }
    api.create(PODS, {"metadata": {"name": pod}, "spec": spec})


async def outcome(plane: ControlPlane, *, delete: bool = False) -> dict[str, str]:
    async with connect(plane.kubeconfig, user_agent="test") as kube:
        return {orphan.claim.name: result for orphan, result in await collect(kube, NAMESPACE, delete=delete)}


async def test_only_orphaned_claims_that_no_pod_mounts_are_deleted(api: Api, control_plane: ControlPlane) -> None:
    orphaning = owner(api, "orphaning")
    claim(api, "model-orphaned", orphaning)
    claim(api, "model-mounted", orphaning)
    claim(api, "model-owned", owner(api, "living"))
    claim(api, "of-others", labels={"app": "x"})
    claim(api, "labelled-as-managed", labels={"app.kubernetes.io/managed-by": "larder"})
    claim(api, "of-a-snapshot", labels=OURS | {"larder.dev/volume": "true"})
    mount(api, "user", "model-mounted")
    api.delete(f"{CONFIG_MAPS}/orphaning?propagationPolicy=Orphan")
    wait_until(  # which goes last, when no claim names it any more
        lambda: not api.answers(f"{CONFIG_MAPS}/orphaning"), 60, "the owner to be gone"
    )
    assert await outcome(control_plane) == {
        "model-mounted": "kept: mounted by pod user",
        "model-orphaned": "would be deleted",
    }
    assert await outcome(control_plane, delete=True) == {
        "model-mounted": "kept: mounted by pod user",
        "model-orphaned": "deleted",
    }
    wait_until(lambda: not api.answers(f"{CLAIMS}/model-orphaned"), 60, "the claim to be gone")
    left = {found["metadata"]["name"] for found in api.get(CLAIMS)["items"]}
    assert left == {"model-mounted", "model-owned", "of-others", "labelled-as-managed", "of-a-snapshot"}


async def test_an_owner_with_another_uid_or_an_unknown_kind_does_not_keep_a_claim(
    api: Api, control_plane: ControlPlane
) -> None:
    """The garbage collector of Kubernetes would delete the claim a little later; a finalizer keeps it here."""
    now = owner(api, "again")
    body = claim(api, "model-again", now | {"uid": "00000000-0000-0000-0000-000000000000"}, now)
    assert body["metadata"]["name"] not in await outcome(control_plane)
    unknown = {"apiVersion": "none.example.com/v1", "kind": "Nothing", "name": "x", "uid": "1"}
    claim(api, "model-unknown", unknown)
    result = await outcome(control_plane, delete=True)
    assert "the cluster serves no Nothing of none.example.com/v1" in result["model-unknown"]
    assert api.answers(f"{CLAIMS}/model-unknown")


def test_a_dry_run_is_the_default(api: Api, control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    claim(api, "model-orphaned")
    assert main(["--kubeconfig", str(control_plane.kubeconfig), "-n", NAMESPACE]) == 0
    shown = capsys.readouterr().out
    assert "model-orphaned" in shown
    assert "nothing was deleted; add --delete" in shown
    assert main(["--kubeconfig", str(control_plane.kubeconfig), "-n", NAMESPACE, "--delete"]) == 0
    assert "deleted" in capsys.readouterr().out
    assert main(["--kubeconfig", str(control_plane.kubeconfig), "-n", NAMESPACE]) == 0
