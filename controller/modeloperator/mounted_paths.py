"""Which directories of a claim pods mount, and where. No input or output, no clock."""

from collections.abc import Iterable

from controller.modeloperator.objects import REVISIONS
from shared.api.core import MountedClaim
from shared.api.meta import ApiStruct
from shared.kube.objects import Object

_ENDED = ("Succeeded", "Failed")


class _Mount(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""


class _Container(ApiStruct, frozen=True, kw_only=True):
    volume_mounts: list[_Mount] = []


class _Volume(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    persistent_volume_claim: MountedClaim = MountedClaim()


class _Spec(ApiStruct, frozen=True, kw_only=True):
    volumes: list[_Volume] = []
    containers: list[_Container] = []
    init_containers: list[_Container] = []
    ephemeral_containers: list[_Container] = []
    node_name: str = ""


class _Status(ApiStruct, frozen=True, kw_only=True):
    phase: str = ""


class MountingPod(Object, frozen=True, kw_only=True):
    """A pod, with the fields that show which claims it mounts."""

    spec: _Spec = _Spec()
    status: _Status = _Status()


def mounted_paths(pods: Iterable[MountingPod], claim: str) -> frozenset[str] | None:
    """Return the directories of versions that pods mount, or None if one of them mounts the whole claim.

    Args:
        pods: The pods of the claim's namespace; those that have ended do not count.
        claim: Name of the claim.
    """
    found = set[str]()
    for pod in pods:
        if pod.status.phase in _ENDED:
            continue
        for mount in _mounts(pod, claim):
            path = _version_of(mount)
            if path is None:
                return None
            found.add(path)
    return frozenset(found)


def mounting_node(pods: Iterable[MountingPod], claim: str) -> str:
    """Return the node whose running pods mount a claim; empty if there is none, or more than one."""
    running = (pod for pod in pods if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None)
    nodes = {pod.spec.node_name for pod in running if _volumes(pod, claim)}
    return nodes.pop() if len(nodes) == 1 else ""


def _volumes(pod: MountingPod, claim: str) -> set[str]:
    return {v.name for v in pod.spec.volumes if v.persistent_volume_claim.claim_name == claim}


def _mounts(pod: MountingPod, claim: str) -> list[_Mount]:
    spec, volumes = pod.spec, _volumes(pod, claim)
    containers = [*spec.containers, *spec.init_containers, *spec.ephemeral_containers]
    return [mount for container in containers for mount in container.volume_mounts if mount.name in volumes]


def _version_of(mount: _Mount) -> str | None:
    """Return the directory of the version that a mount is in, or None if it may see more than one."""
    head, _, rest = mount.sub_path.strip("/").partition("/")
    digest = rest.partition("/")[0]
    if mount.sub_path_expr or head != REVISIONS or not digest:
        return None
    return f"{REVISIONS}/{digest}"
