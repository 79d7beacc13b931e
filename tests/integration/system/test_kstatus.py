"""How Flux and `kubectl wait` see our objects, from creation to deletion."""

import subprocess
from collections.abc import Callable

import pytest

from rig.binaries import Binaries
from rig.larder.objects import KINDS, path_of
from rig.larder.site import Site
from shared.json_object import Json
from tests.readers.kstatus import Status, kstatus

Wait = Callable[[str, str], None]
OURS = ("BaseModel", "ClusterBaseModel", "ClusterModelCache", "ModelCacheNodeGroup", "ModelNode")


@pytest.fixture
def kubectl_wait(site: Site, binaries: Binaries) -> Wait:
    """Wait for a condition of an object as a script would."""

    def run(what: str, condition: str) -> None:
        argv = [str(binaries.kubectl), f"--kubeconfig={site.cluster.plane.kubeconfig}", "wait", what]
        subprocess.run([*argv, f"--for=condition={condition}", "--timeout=120s"], check=True, capture_output=True)  # noqa: S603 - the rig's own kubectl

    return run


def history(site: Site, kind: str, name: str, end: Status) -> list[Status]:
    """Return the kstatus results of an object up to this one."""
    statuses: list[Status] = []

    def has_ended() -> bool:
        statuses.append(kstatus(site.get(kind, name)))
        return statuses[-1] == end

    site.until(has_ended, f"{kind} {name} to be {end}")
    return statuses


def test_kstatus_follows_a_cache_from_creation_to_deletion(site: Site, kubectl_wait: Wait) -> None:
    name = site.name("life")
    spec = {"storageUri": site.push(size_bytes=4 * 2**20), "nodeGroup": "gpus"}
    body = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ClusterModelCache", "metadata": {"name": name}}
    site.api.create(KINDS["ClusterModelCache"], body | {"spec": spec})
    assert set(history(site, "ClusterModelCache", name, "Current")) <= {"InProgress", "Current"}
    site.wait_ready("ClusterModelCache", name)
    kubectl_wait(f"cmc/{name}", "Ready")
    path = path_of("ClusterModelCache", name)
    changed = {"spec": {"modelSize": "5Mi"}}
    assert kstatus(site.api.patch(path, changed)) == "InProgress", "the change has not been reconciled yet"
    history(site, "ClusterModelCache", name, "Current")
    site.api.patch(path, {"spec": {"modelSize": "1Mi"}})
    site.until(lambda: "LargerThanDeclared" in site.reasons(name), "the size to be reported")
    history(site, "ClusterModelCache", name, "Current")
    assert site.status("ClusterModelCache", name)["storageStatus"] == "Ready", "a wrong size blocks nothing"
    site.api.call("DELETE", path)
    site.until(lambda: not site.api.answers(path) or kstatus(site.api.get(path)) == "Terminating", "its end to begin")
    site.until(lambda: site.is_gone("ClusterModelCache", name), "the cache to be gone")


def test_a_failing_model_is_stalled_and_recovers(site: Site, kubectl_wait: Wait) -> None:
    uri = f"hf://org/{site.name('later')}"
    name = site.base_model(uri, nodeSelector={"kubernetes.io/hostname": "c"})
    history(site, "ClusterBaseModel", name, "Failed")
    kubectl_wait(f"cbm/{name}", "Stalled")
    site.push(repo=uri.removeprefix("hf://"))
    site.api.patch(path_of("ClusterBaseModel", name), {"metadata": {"annotations": {"larder.dev/refresh": "1"}}})
    history(site, "ClusterBaseModel", name, "Current")
    site.wait_ready("ClusterBaseModel", name)
    kinds = {c["type"] for c in site.status("ClusterBaseModel", name)["conditions"]}
    assert not kinds & {"Stalled", "Reconciling"}
    site.delete("ClusterBaseModel", name)
    site.until(lambda: site.is_gone("ClusterBaseModel", name), "the model to be gone")


def test_an_object_that_was_never_reconciled_is_in_progress(site: Site) -> None:
    name = site.name("fresh")
    body = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ModelCacheNodeGroup", "metadata": {"name": name}}
    made = site.api.create(KINDS["ModelCacheNodeGroup"], body | {"spec": {"storageLimit": "1Gi"}})
    assert made["status"] == {"observedGeneration": -1}
    assert kstatus(made) == "InProgress"
    history(site, "ModelCacheNodeGroup", name, "Current")
    site.delete("ModelCacheNodeGroup", name)


def test_kubectl_wait_works_for_nodes_and_groups(site: Site, kubectl_wait: Wait) -> None:
    kubectl_wait("modelnode/a", "Ready")
    kubectl_wait("mcng/gpus", "Ready")
    history(site, "ModelNode", "a", "Current")


@pytest.mark.parametrize("kind", OURS)
def test_every_condition_has_the_observed_generation(site: Site, kind: str) -> None:
    def all_agree() -> bool:
        found: list[Json] = site.api.get(KINDS[kind])["items"]
        reported = [(o["status"]["observedGeneration"], c) for o in found for c in o["status"].get("conditions", [])]
        assert all(c["observedGeneration"] > 0 for _, c in reported)
        return all(c["observedGeneration"] == generation for generation, c in reported)

    site.until(all_agree, f"the conditions of every {kind} to be of what was observed")
