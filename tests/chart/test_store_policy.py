"""Mounts of the store that users write themselves; tried on a real API server.

Pods with the annotation of admission are tried in kube-system: elsewhere the webhook, which is absent here, checks it.
"""

from typing import Any

import pytest

from rig.api import Api
from rig.errors import CallRefused
from rig.processes import wait_until
from shared.json_object import Json
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
    """Return a pod with the annotation by which admission records its model."""
    found = _pod(path, *mounts, **pod)
    found["metadata"]["annotations"] = {"larder.dev/models": "m@r"}
    return found


def _refusal(api: Api, pod: Json, namespace: str = "default") -> str:
    """Return the reason for the refusal of a pod, or an empty string; nothing is stored."""
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
def test_pods_that_admission_gave_no_model_cannot_mount_the_store(path: str, mount: Json, api: Api) -> None:
    message = _refusal(api, _pod(path, mount))
    assert "volumes store are in the model store, /var/lib/larder: remove them" in message


@PATHS
@pytest.mark.parametrize("place", ["containers", "initContainers"])
def test_a_writable_mount_is_refused_at_any_position(path: str, place: str, api: Api) -> None:
    message = _refusal(api, _given(path, {}, place=place), SYSTEM)
    assert "volumes store are in the model store, /var/lib/larder: set readOnly: true" in message
    twice = _given(path, {"readOnly": True}, {"readOnly": False, "mountPath": "/w"}, place=place)
    assert _refusal(api, twice, SYSTEM)


def test_mounts_that_admission_adds_are_allowed(api: Api) -> None:
    assert not _refusal(api, _given(f"{ROOT}/models/m/r", {"readOnly": True}), SYSTEM)


@pytest.mark.parametrize("kind", ["", "DirectoryOrCreate", "FileOrCreate"])
def test_host_paths_that_would_be_created_in_the_store_are_refused(kind: str, api: Api) -> None:
    pod = _given(f"{ROOT}/models/m/r", {"readOnly": True}, kind=kind)
    assert "set type: Directory" in _refusal(api, pod, SYSTEM)


WIDE = pytest.mark.parametrize(
    "path",
    [
        *("/", "//", "/.", "/var", "/var/", "//var//./lib/", "/proc", "/proc/", "/proc/1/root", f"/proc/1/root{ROOT}"),
        *(f"/proc/self/root{ROOT}/models", "/proc/thread-self/root/var", "//proc/./4711//cwd", "/proc/1", "/dev/fd/7"),
        "/proc/1/task/1/root/var/lib/larder",
    ],
)


@WIDE
@pytest.mark.parametrize(
    "mount", [{}, {"readOnly": True}, {"subPath": ROOT[1:]}, {"subPathExpr": "$(X)", "readOnly": True}]
)
def test_a_mount_of_a_directory_above_the_store_is_refused(path: str, mount: Json, api: Api) -> None:
    """A mount of / shows the store, with or without a sub-path, and /proc/1/root is /."""
    message = _refusal(api, _pod(path, mount))
    assert "volumes store contain the model store, /var/lib/larder" in message
    assert "kubectl label namespace default larder.dev/allow-host-paths=true" in message


@WIDE
def test_a_volume_that_no_container_mounts_is_refused_too(path: str, api: Api) -> None:
    pod = _pod(path)
    del pod["spec"]["containers"][-1]
    assert _refusal(api, pod)


@WIDE
def test_pods_that_mount_the_host_run_in_namespaces_that_an_administrator_allows(path: str, api: Api) -> None:
    api.ensure("/api/v1/namespaces", {"metadata": {"name": "monitoring"}})
    wait_until(lambda: api.answers("/api/v1/namespaces/monitoring/serviceaccounts/default"), 60, "its account")
    for namespace in (SYSTEM, NAMESPACE):
        assert not _refusal(api, _pod(path, {}), namespace)
    label: Json = {"metadata": {"labels": {"larder.dev/allow-host-paths": "true"}}}
    api.patch("/api/v1/namespaces/monitoring", label)
    wait_until(lambda: not _refusal(api, _pod(path, {"readOnly": True}), "monitoring"), 60, "the label to be seen")
    assert _refusal(api, _pod(f"{ROOT}/blobs", {}), "monitoring"), "the store itself is still refused"
    label["metadata"]["labels"]["larder.dev/allow-host-paths"] = None
    api.patch("/api/v1/namespaces/monitoring", label)
    wait_until(lambda: bool(_refusal(api, _pod(path, {"readOnly": True}), "monitoring")), 60, "the label to be gone")


def test_an_ephemeral_container_cannot_mount_a_directory_above_the_store(api: Api) -> None:
    """The pod is older than the policy, or was allowed by a label that has been removed."""
    pods = "/api/v1/namespaces/old/pods"
    label: Json = {"metadata": {"name": "old", "labels": {"larder.dev/allow-host-paths": "true"}}}
    api.ensure("/api/v1/namespaces", label)
    wait_until(lambda: api.answers("/api/v1/namespaces/old/serviceaccounts/default"), 60, "its account")
    wait_until(lambda: not _refusal(api, _pod("/", {}), "old"), 60, "the label to be seen")
    name = api.create(pods, _pod("/", {}, terminationGracePeriodSeconds=0))["metadata"]["name"]
    api.patch("/api/v1/namespaces/old", {"metadata": {"labels": {"larder.dev/allow-host-paths": None}}})
    wait_until(lambda: bool(_refusal(api, _pod("/", {}), "old")), 60, "the label to be gone")
    debugger: Json = {"name": "debug", "image": "busybox", "volumeMounts": [{"name": "store", "mountPath": "/m"}]}
    path = f"{pods}/{name}/ephemeralcontainers?dryRun=All"
    with pytest.raises(CallRefused, match="an ephemeral container may not mount them"):
        api.patch(path, {"spec": {"ephemeralContainers": [debugger | {"volumeMounts": [
            {"name": "store", "mountPath": "/m", "readOnly": True}]}]}})  # fmt: skip
    api.patch(path, {"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}})
    api.delete(f"{pods}/{name}", grace_s=0)


def _volume(**source: Json) -> Json:
    spec: Json = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadOnlyMany"], **source}
    if "local" in source:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"generateName": "store-"}, "spec": spec}


@pytest.mark.parametrize("source", ["hostPath", "local"])
@pytest.mark.parametrize(
    ("path", "refused"),
    [
        *((path, True) for path in (ROOT, f"{ROOT}/models/m/r", "/var//lib", "/", f"/proc/1/root{ROOT}")),
        *((path, False) for path in ("/var/lib/larderer", "/mnt/disks/one", "/proc-like")),
    ],
)
def test_a_persistent_volume_does_not_bypass_the_policy(source: str, path: str, refused: bool, api: Api) -> None:  # noqa: FBT001 - a parameter
    try:
        api.create("/api/v1/persistentvolumes?dryRun=All", _volume(**{source: {"path": path}}))
        message = ""
    except CallRefused as refusal:
        message = str(refusal)
    assert ("is in the model store, /var/lib/larder, or contains it" in message) is refused
    assert bool(message) is refused


def test_other_persistent_volumes_are_not_restricted(api: Api) -> None:
    api.create("/api/v1/persistentvolumes?dryRun=All", _volume(nfs={"server": "s", "path": "/"}))


@pytest.mark.parametrize("path", ["/var/lib/larderer", "/data", f"/mnt{ROOT}", "/proc/sys", "/procs/1", "/dev/fuse"])
def test_volumes_with_other_paths_are_allowed(path: str, api: Api) -> None:
    assert not _refusal(api, _pod(path, {}, kind="DirectoryOrCreate"))


def test_other_volumes_and_pods_without_volumes_are_allowed(api: Api) -> None:
    pod = _given(ROOT, {"name": "own"})
    pod["spec"]["volumes"].append({"name": "own", "emptyDir": {}})
    assert not _refusal(api, pod, SYSTEM)
    pod = _pod("/data", {"name": "own"})
    del pod["spec"]["volumes"], pod["spec"]["containers"][-1]
    assert not _refusal(api, pod)


def test_only_the_release_namespace_is_exempt(api: Api) -> None:
    assert not _refusal(api, _pod(ROOT, {}), NAMESPACE)
    for namespace in (SYSTEM, "team-a"):
        assert _refusal(api, _pod(ROOT, {}), namespace)


def test_an_ephemeral_container_may_mount_the_store_only_read_only(api: Api) -> None:
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
