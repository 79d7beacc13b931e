"""How the tests are shared out among the workers of pytest-xdist: `pytest -n`."""

from xdist.scheduler import LoadScopeScheduling

# Kept together: the tests of a folder that has one node for all, or a control plane of its own that is dear to start.
TOGETHER = ("tests/e2e/kserve", "tests/e2e", "tests/chart")


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # it ships no types
    """Gives a free worker the next file, or folder of TOGETHER, in the order of `testpaths`: long ones come first."""

    def _split_scope(self, nodeid: str) -> str:
        together = (folder for folder in TOGETHER if nodeid.startswith(f"{folder}/"))
        return next(together, nodeid.partition("::")[0])
