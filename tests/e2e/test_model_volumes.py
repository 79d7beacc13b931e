"""Pods on a real node that reach models through claims, as they do by default."""

import hashlib
import os
from pathlib import Path

import pytest

from controller.placement.volume_names import MODEL_ANNOTATION
from rig.hub.faults import Stall
from rig.node.images import CONTROLLER
from rig.node.installation import Installation
from shared.json_object import Json
from shared.names import fetching_label, snapshot_label
from tests.e2e.debuggers import add_debugger
from tests.e2e.fingerprints import fingerprint
from tests.e2e.namespaces import CONFINED, SECURITY, namespace_of_level


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
def test_a_pod_of_a_baseline_or_restricted_namespace_reads_the_model(
    site: Installation, model: str, level: str
) -> None:
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
    site.until(lambda: model not in claims(site, namespace), "the claim to go with its last pod")
    site.until(lambda: not volumes(site, model), "the volume to be gone")
    again = site.deployment(model, namespace, securityContext=SECURITY, main={"securityContext": CONFINED})
    site.running(again, namespace)


# Each volume claims to be writable; the last two bind-mount a file and the directory again.
_MOUNTS: tuple[Json, ...] = (
    {"name": "m", "mountPath": "/again", "readOnly": False},
    {"name": "m", "mountPath": "/file", "subPath": "config.json", "readOnly": False},
)
_ATTEMPTS = """
file=$at; [ -d $at ] && file=$at/config.json
try() { "$@" 2>/dev/null && echo done; true; }
try sh -c "echo x >$file"
try sh -c "echo x >>$file"
try sh -c "echo x >$at/new"
try mkdir $at/folder
try ln $file $at/link
try chmod 666 $file
try chown 7:7 $file
try touch $file
try truncate -s 0 $file
try mv $file $file.old
try rm -f $file
try mount -o remount,rw $at
try mount -o remount,rw,bind $at
try mount --bind $at /tmp
"""


_POSSIBLE = _ATTEMPTS.count("\ntry ") - 3  # in a directory of the tenant; mounting requires more privileges


def test_a_tenant_cannot_change_a_model_through_its_claim(site: Installation, model: str) -> None:
    before = fingerprint(snapshot_of(site, model))
    namespace = namespace_of_level(site, "privileged")
    root = {"fsGroup": 2000, "runAsUser": 0}
    web = site.deployment(model, namespace, securityContext=root)
    pod = site.running(web, namespace)
    for attempt in ("chown -R 7 $MODEL_PATH", "chmod -R 777 $MODEL_PATH", "mount -o remount,rw $MODEL_PATH"):
        assert "0" not in site.sh(pod, f"{attempt} 2>/dev/null && echo 0; true")
    own = site.pod_on_claim(model, namespace, _MOUNTS, securityContext=root | {"fsGroupChangePolicy": "Always"})
    elsewhere = "mkdir /tmp/own; touch /tmp/own/config.json; at=/tmp/own"
    assert site.sh(own, f"{elsewhere}; {_ATTEMPTS}").count("done") == _POSSIBLE
    for at in ("/m", "/again", "/file"):
        assert "done" not in site.sh(own, f"at={at}; {_ATTEMPTS}")
    if debugger := add_debugger(site, own, "m"):
        assert "done" not in site.sh(own, f"at=/stolen; {_ATTEMPTS}", debugger)
    assert fingerprint(snapshot_of(site, model)) == before


def test_a_pod_that_bypassed_admission_runs_on_a_node_with_the_files_and_keeps_them_in_use(
    site: Installation, model: str
) -> None:
    namespace = namespace_of_level(site, "privileged")
    web = site.deployment(model, namespace)
    site.running(web, namespace)
    own = site.pod_on_claim(model, namespace)
    site.remove_deployment(web, namespace)
    revision = site.status("ClusterBaseModel", model)["servingRevision"]
    assert site.labels("one")[snapshot_label(model, revision)] == "true"
    site.delete_unused("ClusterBaseModel", model)
    site.until(lambda: any(e.get("inUse") for e in site.entries("one", model)), "its user to be seen")
    assert snapshot_of(site, model).exists()
    site.delete_pod(own, 0)
    site.until(lambda: site.is_gone("ClusterBaseModel", model), "the model to go with its last user")
    site.until(lambda: model not in claims(site, namespace), "the claim to be gone")


def test_a_pod_waits_on_a_node_without_the_files_and_starts_when_all_of_them_are_there(site: Installation) -> None:
    weights = os.urandom(2_000_000)
    site.hub.faults.add(Stall(100_000), f"*{hashlib.sha256(weights).hexdigest()}")
    uri = site.push(files={"weights.bin": weights, "config.json": b"{}", "more/notes.txt": b"x" * 1000})
    model = site.base_model(uri, nodeSelector={"gpu": "yes"})
    site.until(lambda: "servingRevision" in site.status("ClusterBaseModel", model), "the model to be resolved")
    namespace = namespace_of_level(site, "restricted")
    asked = {"larder.dev/model": model, "larder.dev/placement": "preferred"}
    web = site.workload(asked, namespace, main={"securityContext": CONFINED}, securityContext=SECURITY)
    events = f"/api/v1/namespaces/{namespace}/events"

    def refused_mounts() -> list[str]:
        return [e["message"] for e in site.api.get(events)["items"] if e["reason"] == "FailedMount"]

    site.until(
        lambda: any("does not exist" in message for message in refused_mounts()), "kubelet to look for the files"
    )
    creating = [{"waiting": {"reason": "ContainerCreating"}}]
    site.until(lambda: container_states(site, web, namespace) == creating, "the container to wait")
    snapshot = snapshot_of(site, model)
    fetching = fetching_label(model, snapshot.name)
    site.until(lambda: fetching in site.labels("one"), "the node to be labelled as fetching")
    assert not snapshot.exists()

    site.hub.faults.clear()
    pod = site.running(web, namespace)
    found = site.sh(pod, "cd $MODEL_PATH && find . -type f -not -name .completed | sort | xargs sha256sum")
    files = sorted(path for path in snapshot.rglob("*") if path.is_file() and path.name != ".completed")
    assert len(files) == 3
    expected = {f"./{path.relative_to(snapshot)}": hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert {path: digest for digest, path in (line.split() for line in found.splitlines())} == expected
    site.until(lambda: fetching not in site.labels("one"), "the label to be gone")


def container_states(site: Installation, workload: str, namespace: str) -> list[Json]:
    pods = site.pods(f"app={workload}", namespace)
    return [status["state"] for pod in pods for status in pod["status"].get("containerStatuses", [])]


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
