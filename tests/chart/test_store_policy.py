"""Mounts of the store that somebody writes himself, tried on a real API server.

Pods that say what they were given are tried in kube-system: elsewhere the webhook, which is not here, looks at them.
"""

from typing import Any

import pytest

from rig.api import Api
from rig.errors import CallRefused
from rig.helm import Json
from rig.processes import wait_until
from tests.chart.conftest import NAMESPACE

ROOT = "/var/lib/larder"
SYSTEM = "kube-system"
FORBIDDEN = 403


def _pod(path: str, *mounts: Json, kind: str = "Directory", place: str = "containers", **pod: Any) -> Json:
    plain = {"name": "main", "image": "pause:3.10"}
    volumes = [{"name": "store", "hostPath": {"path": path} | ({"type": kind} if kind else {})}]
    spec: Json = {"containers": [plain], "volumes": volumes}
    holder = plain | {"name": "holder", "volumeMounts": [{"name": "store", "mountPath": "/m"} | m for m in mounts]}
    spec[place] = [*spec.get(place, []), holder]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "store-"}, "spec": spec | pod}


def _given(path: str, *mounts: Json, **pod: Any) -> Json:
    """Return a pod that says that it was given a model."""
    found = _pod(path, *mounts, **pod)
    found["metadata"]["annotations"] = {"larder.dev/models": "m@r"}
    return found


def _refusal(api: Api, pod: Json, namespace: str = "default") -> str:
    """Return why the API server refuses a pod, empty where it takes it; nothing is stored."""
    try:
        api.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
    except CallRefused as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return str(refusal)
    return ""


@pytest.fixture(scope="module", autouse=True)
def _in_force(api: Api) -> None:
    wait_until(lambda: bool(_refusal(api, _pod(ROOT, {}))), 60, "the policy to be in force")
    for namespace in ("team-a", SYSTEM):
        wait_until(lambda: api.answers(f"/api/v1/namespaces/{namespace}/serviceaccounts/default"), 60, "its account")  # noqa: B023 - called before the next turn


PATHS = pytest.mark.parametrize(
    "path",
    [ROOT, f"{ROOT}/", f"{ROOT}/blobs", f"{ROOT}/models/m/r", "//var//lib/./larder/models", "/var/lib//larder/x"],
)


@PATHS
@pytest.mark.parametrize("mount", [{}, {"readOnly": True}, {"readOnly": True, "subPath": "made/by/kubelet"}])
def test_nobody_mounts_the_store_who_was_not_given_a_model(path: str, mount: Json, api: Api) -> None:
    words = _refusal(api, _pod(path, mount))
    assert "volumes store are in the store of models, /var/lib/larder: remove them" in words


@PATHS
@pytest.mark.parametrize("place", ["containers", "initContainers"])
def test_a_writable_mount_is_refused_wherever_it_stands(path: str, place: str, api: Api) -> None:
    words = _refusal(api, _given(path, {}, place=place), SYSTEM)
    assert "volumes store are in the store of models, /var/lib/larder: set readOnly: true" in words
    twice = _given(path, {"readOnly": True}, {"readOnly": False, "mountPath": "/w"}, place=place)
    assert _refusal(api, twice, SYSTEM)


def test_what_admission_gives_is_allowed(api: Api) -> None:
    assert not _refusal(api, _given(f"{ROOT}/models/m/r", {"readOnly": True}), SYSTEM)


@pytest.mark.parametrize("kind", ["", "DirectoryOrCreate", "FileOrCreate"])
def test_nothing_may_be_created_in_the_store(kind: str, api: Api) -> None:
    pod = _given(f"{ROOT}/models/m/r", {"readOnly": True}, kind=kind)
    assert "set type: Directory" in _refusal(api, pod, SYSTEM)


@pytest.mark.parametrize("path", ["/var/lib/larderer", "/var/lib", "/", "/data", f"/mnt{ROOT}"])
def test_other_paths_are_nobody_s_business(path: str, api: Api) -> None:
    assert not _refusal(api, _pod(path, {}, kind="DirectoryOrCreate"))


def test_other_volumes_and_pods_without_any_are_left_alone(api: Api) -> None:
    pod = _given(ROOT, {"name": "own"})
    pod["spec"]["volumes"].append({"name": "own", "emptyDir": {}})
    assert not _refusal(api, pod, SYSTEM)
    pod = _pod("/data", {"name": "own"})
    del pod["spec"]["volumes"], pod["spec"]["containers"][-1]
    assert not _refusal(api, pod)


def test_the_release_namespace_alone_is_exempt(api: Api) -> None:
    assert not _refusal(api, _pod(ROOT, {}), NAMESPACE)
    for namespace in (SYSTEM, "team-a"):
        assert _refusal(api, _pod(ROOT, {}), namespace)


def test_an_ephemeral_container_may_not_write_either(api: Api) -> None:
    pods = f"/api/v1/namespaces/{SYSTEM}/pods"
    pod = api.create(pods, _given(f"{ROOT}/models/m/r", {"readOnly": True}, terminationGracePeriodSeconds=0))
    name = pod["metadata"]["name"]
    path = f"{pods}/{name}/ephemeralcontainers?dryRun=All"
    debugger: Json = {"name": "debug", "image": "busybox", "volumeMounts": [{"name": "store", "mountPath": "/m"}]}
    try:
        with pytest.raises(CallRefused, match="every volumeMount of the ephemeral container"):
            api.patch(path, {"spec": {"ephemeralContainers": [debugger]}})
        debugger["volumeMounts"][0]["readOnly"] = True
        api.patch(path, {"spec": {"ephemeralContainers": [debugger]}})
    finally:
        api.delete(f"{pods}/{name}", grace_s=0)
