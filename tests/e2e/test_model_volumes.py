"""Pods on a real node that reach models through claims, as they do by default."""

import hashlib
from pathlib import Path

import pytest

from controller.placement.volume_names import MODEL_ANNOTATION
from rig.larder.cluster_driver import Json
from rig.node.images import CONTROLLER
from rig.node.installation import Installation
from shared.names import snapshot_label
from tests.e2e.fingerprints import fingerprint

SECURITY: Json = {
    "runAsNonRoot": True,
    "runAsUser": 123456,
    "fsGroup": 2000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONFINED: Json = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def namespace_of_level(site: Installation, level: str) -> str:
    """Create a namespace that enforces a level of pod security, and return its name."""
    name = site.name(level)
    labels = {"pod-security.kubernetes.io/enforce": level}
    site.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    site.until(lambda: site.api.answers(f"/api/v1/namespaces/{name}/serviceaccounts/default"), "its account")
    return name


@pytest.fixture
def model(site: Installation) -> str:
    name = site.base_model(nodeSelector={"gpu": "yes"})
    site.wait_ready("ClusterBaseModel", name)
    return name


def snapshot_of(site: Installation, model: str) -> Path:
    return site.snapshot("one", model, site.status("ClusterBaseModel", model)["servingRevision"])


def claims(site: Installation, namespace: str) -> dict[str, Json]:
    found = site.api.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")["items"]
    return {claim["metadata"]["name"]: claim for claim in found}


def volumes(site: Installation, model: str) -> dict[str, Json]:
    found = site.api.get("/api/v1/persistentvolumes")["items"]
    return {v["metadata"]["name"]: v for v in found if _stands_for(v).startswith(f"{model}@")}


def _stands_for(volume: Json) -> str:
    return str(volume["metadata"].get("annotations", {}).get(MODEL_ANNOTATION, ""))


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_a_pod_of_a_confined_namespace_reads_the_model(site: Installation, model: str, level: str) -> None:
    namespace = namespace_of_level(site, level)
    web = site.deployment(model, namespace, securityContext=SECURITY, main={"securityContext": CONFINED})
    pod = site.running(web, namespace)
    config = snapshot_of(site, model) / "config.json"
    found = site.sh(pod, "sha256sum < $MODEL_PATH/config.json")
    assert found.split()[0] == hashlib.sha256(config.read_bytes()).hexdigest()
    claim, volume = claims(site, namespace)[model], volumes(site, model)[f"{model}-{namespace}"]
    assert (claim["spec"]["volumeName"], claim["status"]["phase"]) == (f"{model}-{namespace}", "Bound")
    assert volume["spec"]["mountOptions"] == ["ro"]

    site.remove_deployment(web, namespace)
    site.until(lambda: model not in claims(site, namespace), "the claim to go with its last pod", 90)
    site.until(lambda: not volumes(site, model), "the volume to go", 30)
    again = site.deployment(model, namespace, securityContext=SECURITY, main={"securityContext": CONFINED})
    site.running(again, namespace)
    site.remove_deployment(again, namespace)


def test_a_tenant_changes_nothing_through_a_claim(site: Installation, model: str) -> None:
    before = fingerprint(snapshot_of(site, model))
    namespace = namespace_of_level(site, "privileged")
    root = {"fsGroup": 2000, "runAsUser": 0}
    web = site.deployment(model, namespace, securityContext=root)
    pod = site.running(web, namespace)
    for attempt in ("chown -R 7 $MODEL_PATH", "chmod -R 777 $MODEL_PATH", "mount -o remount,rw $MODEL_PATH"):
        assert "0" not in site.sh(pod, f"{attempt} 2>/dev/null && echo 0; true")
    own = site.pod_on_claim(model, namespace, securityContext=root)
    writing = "echo x > /m/config.json && echo written; echo x > /m/new && echo written; true"
    assert "written" not in site.sh(own, writing)
    assert fingerprint(snapshot_of(site, model)) == before
    site.delete_pod(own, 0)
    site.remove_deployment(web, namespace)


def test_a_pod_that_admission_never_saw_runs_where_the_files_are_and_keeps_them(site: Installation, model: str) -> None:
    namespace = namespace_of_level(site, "privileged")
    web = site.deployment(model, namespace)
    site.running(web, namespace)
    own = site.pod_on_claim(model, namespace)
    site.remove_deployment(web, namespace)
    revision = site.status("ClusterBaseModel", model)["servingRevision"]
    assert site.labels("one")[snapshot_label(model, revision)] == "true"
    site.delete("ClusterBaseModel", model)
    site.until(lambda: any(e.get("inUse") for e in site.entries("one", model)), "its user to be seen")
    assert snapshot_of(site, model).exists()
    site.delete_pod(own, 0)
    site.until(lambda: site.is_gone("ClusterBaseModel", model), "the model to go with its last user", 120)
    site.until(lambda: model not in claims(site, namespace), "the claim to go", 90)


_LOAD = """
import sys, huggingface_hub
folder = huggingface_hub.snapshot_download(sys.argv[1])
config = huggingface_hub.hf_hub_download(sys.argv[1], "config.json", revision="main")
print(folder, open(config).read() == open(folder + "/config.json").read())
"""


def test_huggingface_hub_finds_models_offline_in_its_own_layout(site: Installation) -> None:
    uris = [site.push(), site.push()]
    names = [site.base_model(uri, nodeSelector={"gpu": "yes"}) for uri in uris]
    commits = [site.wait_ready("ClusterBaseModel", name)["servingRevision"] for name in names]
    namespace = namespace_of_level(site, "restricted")
    asked = {"larder.dev/model": ",".join(names), "larder.dev/layout": "hub"}
    main = {"image": CONTROLLER, "command": ["sleep", "infinity"], "securityContext": CONFINED}
    web = site.workload(asked, namespace, main=main, securityContext=SECURITY)
    pod = site.running(web, namespace)
    for uri, commit in zip(uris, commits, strict=True):
        repository = uri.removeprefix("hf://")
        found = site.cluster.exec(
            namespace, pod["metadata"]["name"], ["/opt/venv/bin/python", "-c", _LOAD, repository], "main"
        )
        folder, same = found.strip().splitlines()[-1].split()
        assert folder == f"/models/hub/models--{repository.replace('/', '--')}/snapshots/{commit}"
        assert same == "True"
    site.remove_deployment(web, namespace)
