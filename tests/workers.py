"""How the tests are shared out among the workers of pytest-xdist: `pytest -n`."""

from collections.abc import Sequence

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_SYSTEM = "tests/integration/system"  # its files share a cluster, one for each worker

# What takes over a minute starts first, the longest before the others, so that no worker is left with it at the end.
# Folders are meant without the folders in them. The tests of _SYSTEM come after all others on clusters, so that each
# worker starts their cluster once; those listed here have one of their own.
LONGEST = (
    "tests/e2e",
    "tests/e2e/pages",
    "tests/e2e/installation",
    "tests/e2e/devices",
    "tests/integration/replica_claims",
    "tests/integration/extender",
    f"{_SYSTEM}/test_eviction.py",
    f"{_SYSTEM}/test_many_namespaces.py",
    "tests/integration/manager/test_provisioner.py",
    "tests/integration/dra/test_driver.py",
    "tests/integration/agent/test_reconciler.py",
    f"{_SYSTEM}/test_churn.py",
    "tests/integration/agent/test_faults.py",
    f"{_SYSTEM}/test_tenants.py",
)
LONGEST_OF_SYSTEM = (
    f"{_SYSTEM}/test_training_jobs.py",
    f"{_SYSTEM}/test_claims_not_looked_at.py",
    f"{_SYSTEM}/test_claims.py",
    f"{_SYSTEM}/test_model_caches.py",
    f"{_SYSTEM}/test_volumes.py",
    f"{_SYSTEM}/test_obstacles_of_models.py",
    f"{_SYSTEM}/test_why.py",
    f"{_SYSTEM}/test_models_on_claims.py",
    f"{_SYSTEM}/test_proposal.py",
    f"{_SYSTEM}/test_faults_of_models.py",
    f"{_SYSTEM}/test_why_services.py",
    f"{_SYSTEM}/test_lost_nodes.py",
    f"{_SYSTEM}/test_waiting_pods.py",
    f"{_SYSTEM}/test_kinds_of_others.py",
    f"{_SYSTEM}/test_inference_services.py",
    f"{_SYSTEM}/test_nodes.py",
)

# Each folder in these is kept together: it has one node for all tests, or a control plane that is dear to start.
TOGETHER = ("tests/e2e", "tests/chart", "tests/integration/extender", "tests/integration/replica_claims")

# Tests on nodes keep two cores busy: more of them at a time only take more time each. Tests on a control plane mostly
# wait, so every worker may run them, but only after those on nodes have all been given out.
ON_NODES = ("tests/e2e", "tests/chart")
MOST_ON_NODES = 4
MOST_MEANWHILE = 1  # workers that run tests without a cluster until then
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
    """Return what one worker runs as a whole, with this test in it: a file, or a folder in TOGETHER."""
    file = nodeid.partition("::")[0]
    folder = file.rpartition("/")[0]
    return folder if folder.startswith(TOGETHER) else file


def rank(nodeid: str) -> tuple[bool, int]:
    """Return the place of a test's unit among all; units of the same rank keep their order."""
    kept = unit(nodeid)
    is_last = kept.startswith(_SYSTEM) and kept not in LONGEST
    order = LONGEST_OF_SYSTEM if is_last else LONGEST
    return is_last, order.index(kept) if kept in order else len(order)


def is_on_nodes(kept: str) -> bool:
    """Return whether a unit starts nodes, or installs charts."""
    return kept.startswith(ON_NODES)


def needs_no_cluster(kept: str) -> bool:
    """Return whether a unit starts neither nodes nor a control plane."""
    return kept.startswith(WITHOUT_CLUSTER)


def next_unit(waiting: Sequence[str], worker: int) -> str | None:
    """Return which of the waiting units a free worker takes, by its number; None if it waits."""
    on_nodes = next(filter(is_on_nodes, waiting), None)
    light = next(filter(needs_no_cluster, waiting), None)
    if on_nodes is None:
        return next((kept for kept in waiting if not needs_no_cluster(kept)), light)
    if worker < MOST_ON_NODES:
        return on_nodes
    return light if worker < MOST_ON_NODES + MOST_MEANWHILE else None


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # it ships no types
    """Gives a free worker the next file, or folder in TOGETHER: those on nodes first, then by their ranks."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        wanted = next_unit(list(self.workqueue), self.nodes.index(node))
        if wanted is not None:
            self.workqueue.move_to_end(wanted, last=False)
            super()._assign_work_unit(node)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Note a test that has ended, and give work to every worker that has waited for it."""
        super().mark_test_complete(node, item_index, duration)
        for other in self.nodes:
            self._reschedule(other)
