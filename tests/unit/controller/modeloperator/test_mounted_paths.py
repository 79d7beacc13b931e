import msgspec
import pytest

from controller.modeloperator.mounted_paths import MountingPod, mounted_paths, mounting_node

CLAIM = "model-llama"


def pod(
    *mounts: dict[str, str], claim: str = CLAIM, phase: str = "Running", kind: str = "containers", node: str = ""
) -> MountingPod:
    volumes = [
        {"name": "m", "persistentVolumeClaim": {"claimName": claim}},
        {"name": "tmp", "emptyDir": {}},
    ]
    containers = [{"volumeMounts": [{"name": "m", "mountPath": "/m"} | mount]} for mount in mounts]
    body = {
        "metadata": {"name": "p"},
        "spec": {"volumes": volumes, kind: containers, "nodeName": node},
        "status": {"phase": phase},
    }
    return msgspec.convert(body, MountingPod)


def test_each_version_that_a_container_mounts_is_found() -> None:
    pods = [
        pod({"subPath": ".revisions/aa"}, {"subPath": "/.revisions/bb/weights/"}, {"name": "tmp"}),
        pod({"subPath": ".revisions/cc"}, kind="initContainers"),
        pod({"subPath": ".revisions/dd"}, kind="ephemeralContainers"),
    ]
    assert mounted_paths(pods, CLAIM) == frozenset(f".revisions/{name}" for name in ("aa", "bb", "cc", "dd"))


def test_foreign_claims_and_ended_pods_do_not_count() -> None:
    pods = [pod({}, claim="other"), pod({}, phase="Succeeded"), pod({}, phase="Failed"), pod({"name": "tmp"})]
    assert mounted_paths(pods, CLAIM) == frozenset()


@pytest.mark.parametrize(
    "mount",
    [{}, {"subPath": ".revisions"}, {"subPath": "config"}, {"subPath": ".revisions/aa", "subPathExpr": "$(X)"}],
    ids=str,
)
def test_a_pod_that_can_see_several_versions_uses_them_all(mount: dict[str, str]) -> None:
    assert mounted_paths([pod({"subPath": ".revisions/aa"}), pod(mount, phase="Pending")], CLAIM) is None


def test_the_node_of_a_claim_is_that_of_its_running_pods() -> None:
    here = [pod({}, node="a"), pod({}, node="a"), pod({}, node="b", phase="Succeeded"), pod({}, claim="x", node="c")]
    assert mounting_node(here, CLAIM) == "a"
    assert mounting_node([*here, pod({}, node="d")], CLAIM) == ""
    assert mounting_node([pod({}, phase="Pending")], CLAIM) == ""
