"""How the tests are shared out among the workers of pytest-xdist: `pytest -n`."""

from xdist.scheduler import LoadScopeScheduling

# Each without the folders in it.
LONGEST = ("tests/e2e", "tests/e2e/installation", "tests/e2e/devices", "tests/e2e/pages")

# Each folder in these is kept together: it has one node for all tests, or a control plane that is dear to start.
TOGETHER = ("tests/e2e", "tests/chart")


def unit(nodeid: str) -> str:
    """Return what one worker runs as a whole, with this test in it: a file, or a folder in TOGETHER."""
    file = nodeid.partition("::")[0]
    folder = file.rpartition("/")[0]
    return folder if folder.startswith(TOGETHER) else file


def rank(nodeid: str) -> int:
    """Return the place of a test's unit: those in LONGEST start first, and the others keep their order behind them."""
    kept = unit(nodeid)
    return LONGEST.index(kept) if kept in LONGEST else len(LONGEST)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # it ships no types
    """Gives a free worker the next file, or folder in TOGETHER, in the order of `testpaths`: long ones come first."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
