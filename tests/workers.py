"""How the tests are shared out among the workers of pytest-xdist: `pytest -n`."""

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# Each without the folders in it.
LONGEST = ("tests/e2e", "tests/e2e/installation", "tests/e2e/devices", "tests/e2e/pages")

# Each folder in these is kept together: it has one node for all tests, or a control plane that is dear to start.
TOGETHER = ("tests/e2e", "tests/chart")

# A cluster costs a tenth of a core even while its test waits. With two cores, five at a time take a fifth more CPU time
# for the same tests than four.
MOST_CLUSTERS = 4
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


def rank(nodeid: str) -> int:
    """Return the place of a test's unit: those in LONGEST start first, and the others keep their order behind them."""
    kept = unit(nodeid)
    return LONGEST.index(kept) if kept in LONGEST else len(LONGEST)


def needs_no_cluster(kept: str) -> bool:
    """Return whether a unit starts neither nodes nor a control plane."""
    return kept.startswith(WITHOUT_CLUSTER)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # it ships no types
    """Gives a free worker the next file, or folder in TOGETHER, in the order of `testpaths`: long ones come first.

    The first MOST_CLUSTERS workers take those that need a cluster before the others; the rest take none of those.
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        waiting = list(self.workqueue)
        light = next(filter(needs_no_cluster, waiting), None)
        if self.nodes.index(node) < MOST_CLUSTERS:
            wanted = next((kept for kept in waiting if not needs_no_cluster(kept)), light)
        else:
            wanted = light
        if wanted is not None:
            self.workqueue.move_to_end(wanted, last=False)
            super()._assign_work_unit(node)
