"""Settings of admission."""

import posixpath
from dataclasses import dataclass
from typing import Literal, TypeAlias

from controller.placement.allowed_sources import PUBLIC_SOURCES, AllowedSources
from controller.placement.pod_placement import Placement
from controller.replica_claims.workload_kinds import WorkloadKinds

Mount: TypeAlias = Literal["claim", "hostPath"]


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Settings from the chart.

    `store_root`: the store's directory on every node; `model_cache_enabled`: the chart's `modelCache.enabled`;
    `allowed`: the sources that namespaced models may name; `mount`, `placement`: how pods reach models and where they
    are placed, unless annotated; `csi_drivers`: the drivers that the pvSpec of a ModelCache may name; `workloads`: the
    kinds whose pods may have claims from an annotation; `scheduler`: whether pods that ask for devices go to our
    scheduler.
    """

    store_root: str = "/var/lib/larder"
    model_cache_enabled: bool = True
    allowed: AllowedSources = PUBLIC_SOURCES
    mount: Mount = "claim"
    placement: Placement = "required"
    csi_drivers: frozenset[str] = frozenset()
    workloads: WorkloadKinds = WorkloadKinds()
    scheduler: bool = False

    def __post_init__(self) -> None:
        root = self.store_root
        if not root.startswith("/") or root == "/" or root != posixpath.normpath(root) or root.startswith("//"):
            raise ValueError(f"store_root {root!r} is not a plain absolute path; use, for example, /var/lib/larder")
