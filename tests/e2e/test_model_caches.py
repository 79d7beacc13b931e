"""A ModelCache on a storage class with a real provisioner: from the download to the pods that read it."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.errors import CallRefused
from rig.hub.faults import Stall
from rig.hub.repository import RepositoryAccess
from rig.node.images import AGENT
from rig.node.installation import Installation
from rig.node.local_path import CLASS, LocalPath
from shared.json_object import Json
from tests.e2e.namespaces import CONFINED, SECURITY, namespace_of_level

_LIMIT = 2**20
_SIZE = 12 * _LIMIT


@pytest.fixture(scope="module")
def storage(site: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalPath]:
    """A second storage class, besides the one for claims created manually."""
    state = tmp_path_factory.mktemp("local-path")
    with LocalPath(site.api, site.cluster.kubeconfig, state) as storage:
        yield storage


class Cache:
    """One ModelCache and its status."""

    def __init__(self, site: Installation, namespace: str, **spec: object) -> None:
        self.site, self.namespace, self.name = site, namespace, site.name("mc")
        self.path = f"/apis/serving.kserve.io/v1alpha1/namespaces/{namespace}/modelcaches"
        body = {"pvcSpec": {"storageClassName": CLASS}, **spec}
        meta = {"name": self.name}
        site.api.create(
            self.path,
            {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ModelCache", "metadata": meta, "spec": body},
        )

    @property
    def status(self) -> Json:
        found: Json = self.site.api.get(f"{self.path}/{self.name}").get("status", {})
        return found

    @property
    def message(self) -> str:
        """The message of the condition Ready."""
        conditions = self.status.get("conditions", [])
        return next((str(c["message"]) for c in conditions if c["type"] == "Ready"), "")

    @property
    def pods(self) -> list[Json]:
        return self.site.pods("app.kubernetes.io/component=model-download", self.namespace)

    def delete(self, *, dry_run: bool = False) -> str:
        """Delete the cache; return the reason for a refusal, or an empty string."""
        try:
            self.site.api.delete(f"{self.path}/{self.name}{'?dryRun=All' if dry_run else ''}")
        except CallRefused as refusal:
            return str(refusal)
        return ""


def push_stalled(site: Installation, access: RepositoryAccess | None = None) -> str:
    """Return the URI of a model whose download stops in the middle until the faults of the hub are cleared."""
    weights = os.urandom(_SIZE)
    site.hub.faults.add(Stall(2 * _LIMIT), f"*{hashlib.sha256(weights).hexdigest()}")  # where the hub redirects to
    return site.push(files={"config.json": b"{}", "model.safetensors": weights}, access=access)


def test_a_download_survives_its_pod_and_serves_a_restricted_namespace(site: Installation, storage: LocalPath) -> None:
    namespace = namespace_of_level(site, "restricted")
    group = site.group({"gpu": "yes"}, bandwidthLimit=_LIMIT)
    cache = Cache(site, namespace, storageUri=push_stalled(site), nodeSelector={"gpu": "yes"})
    site.until(lambda: 5 <= cache.status.get("percent", 0) < 100, "progress of the download")
    (pod,) = cache.pods
    assert pod["spec"]["containers"][0]["image"] == AGENT
    site.delete_pod(pod)
    site.until(lambda: any(p["metadata"]["uid"] != pod["metadata"]["uid"] for p in cache.pods), "another pod")
    site.hub.faults.clear()
    site.until(lambda: cache.status.get("storageStatus") == "Ready", "the cache to be ready")
    successor = next(p for p in cache.pods if p["metadata"]["uid"] != pod["metadata"]["uid"])
    log = site.cluster.kubectl("logs", successor["metadata"]["name"], "-n", namespace)
    assert cache.status["servingRevision"] in log
    site.delete("ModelCacheNodeGroup", group)

    web = site.workload(
        {"larder.dev/model": f"modelcache/{cache.name}"}, namespace, main={"securityContext": CONFINED},
        securityContext=SECURITY,
    )  # fmt: skip
    user = site.running(web, namespace)
    (folder,) = storage.volumes.iterdir()
    assert "config.json" in site.sh(user, "ls $MODEL_PATH").split()
    assert (folder / ".completed").exists()
    assert "Read-only file system" in site.sh(user, "{ echo x > $MODEL_PATH/config.json; } 2>&1; true")
    site.until(
        lambda: user["metadata"]["name"] in cache.delete(dry_run=True), "the deletion to be refused with its user"
    )
    site.remove_deployment(web, namespace)
    site.until(lambda: cache.delete() == "", "the deletion")
    site.until(lambda: not site.api.answers(f"{cache.path}/{cache.name}"), "the cache to be gone")
    site.until(lambda: not any(_entries(storage.volumes)), "the volume to go by its reclaim policy")


def test_a_private_download_stops_without_its_secret_and_is_deleted_with_its_namespace(
    site: Installation, storage: LocalPath
) -> None:
    namespace, token = namespace_of_level(site, "restricted"), "hf_of_the_team"
    core = f"/api/v1/namespaces/{namespace}"
    secret = {"metadata": {"name": "hub", "labels": {"larder.dev/credentials": "true"}}, "stringData": {"token": token}}
    site.api.create(f"{core}/secrets", secret)
    site.install(controller={"drainSeconds": 2}, credentialNamespaces=[namespace])
    group = site.group({"gpu": "yes"}, bandwidthLimit=_LIMIT)
    uri = push_stalled(site, RepositoryAccess(frozenset({token})))
    cache = Cache(site, namespace, storageUri=uri, credentialsSecret="hub", nodeSelector={"gpu": "yes"})
    site.until(lambda: 5 <= cache.status.get("percent", 0) < 100, "progress of the download")
    site.api.delete(f"{core}/secrets/hub")
    site.until(lambda: "Secret hub" in cache.message, "the download to be stopped")
    site.until(lambda: cache.pods == [], "the end of its pod")
    site.hub.faults.clear()
    site.api.create(f"{core}/secrets", secret)
    site.api.patch(f"{cache.path}/{cache.name}", {"metadata": {"annotations": {"larder.dev/refresh": "it is back"}}})
    site.until(lambda: cache.status.get("storageStatus") == "Ready", "the cache to be ready")
    site.delete("ModelCacheNodeGroup", group)
    (download,) = cache.pods
    assert token not in str(download)
    web = site.workload(
        {"larder.dev/model": f"modelcache/{cache.name}"}, namespace, main={"securityContext": CONFINED},
        securityContext=SECURITY,
    )  # fmt: skip
    assert "config.json" in site.sh(site.running(web, namespace), "ls $MODEL_PATH").split()
    site.api.delete(core)
    site.until(lambda: not site.api.answers(core), "the namespace to be gone")
    site.until(lambda: not any(_entries(storage.volumes)), "the volume to go by its reclaim policy")
    site.install(controller={"drainSeconds": 2})


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir())
