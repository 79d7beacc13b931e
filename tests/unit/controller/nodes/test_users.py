import time
from typing import Any

import msgspec
import pytest

from controller.nodes.users import users_of
from shared.api.core import Pod
from shared.json_object import Json
from shared.kube.objects import Key
from shared.names import USER_LABEL, ready_label, snapshot_label, snapshot_path, uses_label

ROOT = "/var/lib/larder"
R1, R2, OTHER = ("m", "r1"), ("m", "r2"), ("other", "r1")


def pod(name: str, spec: Json, phase: str = "Running", **metadata: Any) -> Json:
    return {"metadata": {"name": name, "namespace": "ns", **metadata}, "spec": spec, "status": {"phase": phase}}


def selecting(*labels: str) -> Json:
    return {"nodeSelector": dict.fromkeys(labels, "true")}


def mounting(path: str) -> Json:
    return {"volumes": [{"name": "m", "hostPath": {"path": path}}, {"name": "x", "emptyDir": {}}]}


def admitted(key: tuple[str, str]) -> Json:
    """Return a pod as the admission of this release and of all earlier ones changes it."""
    return selecting(ready_label(key[0]), snapshot_label(*key)) | mounting(f"{ROOT}/{snapshot_path(*key)}")


def requiring(operator: str, label: str) -> Json:
    terms = [{"matchExpressions": [{"key": label, "operator": operator, "values": ["true"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def users(*pods: Json) -> dict[tuple[str, str], tuple[str, ...]]:
    found = [msgspec.convert(pod, Pod) for pod in pods]
    return users_of(found, [R1, R2, OTHER], ROOT, {Key("ns", "ours"): f"{ROOT}/{snapshot_path(*R1)}"})


def test_a_pod_on_a_claim_of_ours_uses_its_snapshot() -> None:
    volumes = {"volumes": [{"name": "m", "persistentVolumeClaim": {"claimName": "ours"}}]}
    others = {"volumes": [{"name": "m", "persistentVolumeClaim": {"claimName": "data"}}]}
    assert users(pod("a", volumes), pod("b", others)) == {R1: ("ns/a",)}


def test_an_admitted_pod_uses_its_snapshot_and_no_other() -> None:
    assert users(pod("b", admitted(R2)), pod("a", admitted(R2))) == {R2: ("ns/a", "ns/b")}


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
def test_terminating_pods_count_until_they_have_ended(phase: str) -> None:
    going = pod("p", admitted(R1), phase, deletionTimestamp="2026-01-01T00:00:00Z")
    assert users(going) == {R1: ("ns/p",)}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_have_ended_do_not_count(phase: str) -> None:
    assert users(pod("p", admitted(R1), phase)) == {}


@pytest.mark.parametrize("tail", ["", "/", "/config.json", "//a/./b"])
@pytest.mark.parametrize("root", [ROOT, "//var/./lib//larder"])
def test_a_host_path_at_or_below_the_snapshot_counts(root: str, tail: str) -> None:
    assert users(pod("p", mounting(f"{root}/{snapshot_path(*R1)}{tail}"))) == {R1: ("ns/p",)}


@pytest.mark.parametrize("tail", ["", "/"])
def test_a_volume_with_all_snapshots_of_a_model_uses_each(tail: str) -> None:
    assert users(pod("p", mounting(f"{ROOT}/models/m{tail}"))) == {R1: ("ns/p",), R2: ("ns/p",)}


@pytest.mark.parametrize(
    "path", ["/", ROOT, f"{ROOT}/models", f"{ROOT}/{snapshot_path(*R1)}0", f"{ROOT}/models/m0", "/data"]
)
def test_host_paths_outside_or_above_the_snapshots_do_not_count(path: str) -> None:
    assert users(pod("p", mounting(path))) == {}


@pytest.mark.parametrize(
    "spec",
    [
        selecting(snapshot_label(*R1)),
        selecting(ready_label("m"), snapshot_label(*R1)),
        requiring("In", snapshot_label(*R1)),
        requiring("Exists", ready_label("m")),
        selecting(snapshot_label(*R1)) | mounting("/data"),
    ],
)
def test_labels_in_a_selector_do_not_make_a_pod_a_user(spec: Json) -> None:
    labels = {USER_LABEL: "true", uses_label("m"): "true"}
    claims = {"larder.dev/models": "m@r1"}
    assert users(pod("p", spec, labels=labels, annotations=claims)) == {}


def test_a_pod_with_very_many_volumes_does_not_keep_the_controller_busy() -> None:
    volumes = [{"name": f"v{n}", "hostPath": {"path": f"/a/{n}"}} for n in range(20_000)]
    found = msgspec.convert(pod("p", {"volumes": volumes}), Pod)
    began = time.process_time()
    assert users_of([found], [(f"m{n}", "r1") for n in range(1000)], ROOT, {}) == {}
    assert time.process_time() - began < 1


def test_pods_without_larders_volumes_or_labels_are_not_users() -> None:
    assert users(pod("p", {}), {"metadata": {"name": "bare"}}, pod("q", selecting("gpu"))) == {}
