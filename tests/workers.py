"""Distributes the tests among the workers of pytest-xdist: `pytest -n`."""

from collections.abc import Sequence
from enum import Enum, auto

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_SYSTEM = "tests/integration/system"  # its files share a cluster, which each worker starts once, except for these
OWN_CLUSTERS = (
    f"{_SYSTEM}/test_churn.py",
    f"{_SYSTEM}/test_cluster_files.py",
    f"{_SYSTEM}/test_devices_not_served.py",
    f"{_SYSTEM}/test_drift.py",
    f"{_SYSTEM}/test_eviction.py",
    f"{_SYSTEM}/test_manifests.py",
    f"{_SYSTEM}/test_many_namespaces.py",
    f"{_SYSTEM}/test_plugins_of_models.py",
    f"{_SYSTEM}/test_tenants.py",
)

# Units of over a minute start first, the longest before the others, so that no worker is left with one at the end.
# A folder does not include its subfolders.
LONGEST = (
    "tests/e2e",
    "tests/e2e/pages",
    "tests/e2e/installation",
    "tests/e2e/devices",
    "tests/integration/replica_claims",
    "tests/integration/extender",
    f"{_SYSTEM}/test_training_jobs.py",
    f"{_SYSTEM}/test_claims_not_looked_at.py",
    f"{_SYSTEM}/test_claims.py",
    f"{_SYSTEM}/test_model_caches.py",
    f"{_SYSTEM}/test_volumes.py",
    f"{_SYSTEM}/test_obstacles_of_models.py",
    f"{_SYSTEM}/test_why.py",
    f"{_SYSTEM}/test_models_on_claims.py",
    f"{_SYSTEM}/test_eviction.py",
    f"{_SYSTEM}/test_many_namespaces.py",
    f"{_SYSTEM}/test_proposal.py",
    "tests/integration/manager/test_provisioner.py",
    "tests/integration/dra/test_driver.py",
    "tests/integration/agent/test_reconciler.py",
    f"{_SYSTEM}/test_churn.py",
    "tests/integration/agent/test_faults.py",
    f"{_SYSTEM}/test_faults_of_models.py",
    f"{_SYSTEM}/test_tenants.py",
    f"{_SYSTEM}/test_why_services.py",
    f"{_SYSTEM}/test_lost_nodes.py",
    f"{_SYSTEM}/test_waiting_pods.py",
    f"{_SYSTEM}/test_kinds_of_others.py",
    f"{_SYSTEM}/test_inference_services.py",
    f"{_SYSTEM}/test_nodes.py",
)

# Each folder in these is kept together: it has one node for all tests, or a control plane that is expensive to start.
TOGETHER = ("tests/e2e", "tests/chart", "tests/integration/extender", "tests/integration/replica_claims")

# Tests on nodes keep two cores busy, so running more of them at a time only makes each slower. Those of _SYSTEM mostly
# wait, so they run beside the others from the start, on the remaining workers.
ON_NODES = ("tests/e2e", "tests/chart")
MAX_ON_NODES = 4
WITHOUT_CLUSTER = (
    "tests/conformance/admission",
    "tests/conformance/sources",
    "tests/integration/cli/fetch",
    "tests/integration/cli/inspect",
    "tests/integration/metadata",
    "tests/integration/sources",
    "tests/integration/store",
    "tests/integration/transfer",
    "tests/unit",
)


def unit(nodeid: str) -> str:
    """Return the unit of a test, which one worker runs as a whole: a file, or a folder in TOGETHER."""
    file = nodeid.partition("::")[0]
    folder = file.rpartition("/")[0]
    return folder if folder.startswith(TOGETHER) else file


def rank(nodeid: str) -> int:
    """Return the place of a test's unit among all; units of the same rank keep their order."""
    kept = unit(nodeid)
    return LONGEST.index(kept) if kept in LONGEST else len(LONGEST)


class Kind(Enum):
    """The environment that a unit needs."""

    NODES = auto()  # starts nodes, or installs charts
    SYSTEM = auto()  # the cluster of _SYSTEM
    CLUSTER = auto()  # another control plane
    LIGHT = auto()  # neither nodes nor a control plane


def kind_of(kept: str) -> Kind:
    """Return the kind of a unit."""
    if kept.startswith(ON_NODES):
        return Kind.NODES
    if kept.startswith(WITHOUT_CLUSTER):
        return Kind.LIGHT
    return Kind.SYSTEM if kept.startswith(_SYSTEM) and kept not in OWN_CLUSTERS else Kind.CLUSTER


def kinds_for(worker: int) -> tuple[Kind, ...]:
    """Return the kinds that the worker with this number takes, in order of preference.

    Half of the workers start other clusters late or never, and the other half that of _SYSTEM: each cluster costs
    processor time until the end.
    """
    if worker < MAX_ON_NODES // 2:
        return Kind.NODES, Kind.SYSTEM, Kind.CLUSTER, Kind.LIGHT
    if worker < MAX_ON_NODES:
        return Kind.NODES, Kind.CLUSTER, Kind.SYSTEM, Kind.LIGHT
    if worker == MAX_ON_NODES:
        return Kind.LIGHT, Kind.CLUSTER, Kind.SYSTEM
    return Kind.SYSTEM, Kind.CLUSTER, Kind.LIGHT


def next_unit(waiting: Sequence[str], worker: int) -> str | None:
    """Return which of the waiting units a free worker takes; None if it takes none of them."""
    kinds = kinds_for(worker)
    usable = (kept for kept in waiting if kind_of(kept) in kinds)
    return min(usable, key=lambda kept: kinds.index(kind_of(kept)), default=None)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # it ships no types
    """Gives a free worker the next file, or folder in TOGETHER: by the kinds that it takes, and by rank."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        wanted = next_unit(list(self.workqueue), self.nodes.index(node))
        if wanted is not None:
            self.workqueue.move_to_end(wanted, last=False)
            super()._assign_work_unit(node)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Record the end of a test, and assign work to every worker that has waited for it."""
        super().mark_test_complete(node, item_index, duration)
        for other in self.nodes:
            self._reschedule(other)
