from typing import Any

import pytest

from controller.nodes.users import users_of
from shared.names import ready_label, snapshot_label, snapshot_path

ROOT = "/var/lib/larder"
R1, R2, OTHER = ("m", "r1"), ("m", "r2"), ("other", "r1")
Json = dict[str, Any]


def pod(name: str, spec: Json, phase: str = "Running", **metadata: Any) -> Json:
    return {"metadata": {"name": name, "namespace": "ns", **metadata}, "spec": spec, "status": {"phase": phase}}


def selecting(*labels: str) -> Json:
    return {"nodeSelector": dict.fromkeys(labels, "true")}


def mounting(path: str) -> Json:
    return {"volumes": [{"name": "m", "hostPath": {"path": path}}, {"name": "x", "emptyDir": {}}]}


def requiring(operator: str, label: str) -> Json:
    terms = [{"matchExpressions": [{"key": label, "operator": operator, "values": ["true"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def users(*pods: Json) -> dict[tuple[str, str], tuple[str, ...]]:
    return users_of(pods, [R1, R2, OTHER], ROOT)


def test_an_admitted_pod_uses_its_snapshot_and_no_other() -> None:
    admitted = selecting(ready_label("m"), snapshot_label(*R2))
    assert users(pod("b", admitted), pod("a", admitted)) == {R2: ("ns/a", "ns/b")}


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
def test_every_pod_that_has_not_ended_counts_those_that_terminate_too(phase: str) -> None:
    going = pod("p", selecting(snapshot_label(*R1)), phase, deletionTimestamp="2026-01-01T00:00:00Z")
    assert users(going) == {R1: ("ns/p",)}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_what_has_ended_does_not_count(phase: str) -> None:
    assert users(pod("p", selecting(snapshot_label(*R1)), phase)) == {}


@pytest.mark.parametrize("tail", ["", "/", "/config.json"])
def test_a_volume_at_the_snapshot_counts_whoever_wrote_it(tail: str) -> None:
    assert users(pod("p", mounting(f"{ROOT}/{snapshot_path(*R1)}{tail}"))) == {R1: ("ns/p",)}


@pytest.mark.parametrize("path", [ROOT, f"{ROOT}/models/m", f"{ROOT}/{snapshot_path(*R1)}0", "/data"])
def test_other_directories_do_not_count_nor_does_the_store_that_agents_mount(path: str) -> None:
    assert users(pod("p", mounting(path))) == {}


def test_the_ready_label_alone_means_any_revision() -> None:
    assert users(pod("p", selecting(ready_label("m")))) == {R1: ("ns/p",), R2: ("ns/p",)}


@pytest.mark.parametrize("operator", ["In", "Exists"])
def test_required_affinity_selects_as_well(operator: str) -> None:
    assert users(pod("p", requiring(operator, snapshot_label(*R1)))) == {R1: ("ns/p",)}


def test_what_must_not_be_there_is_not_used() -> None:
    assert users(pod("p", requiring("NotIn", snapshot_label(*R1)))) == {}


def test_pods_with_nothing_of_ours_are_nobodys_users() -> None:
    assert users(pod("p", {}), {"metadata": {"name": "bare"}}, pod("q", selecting("gpu"))) == {}
