"""Checks that no public class name is used twice: `python -m rig.class_names`, a part of `make check`."""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("agent", "controller", "rig", "shared")
# Names that may be used twice, each with its reason; an unnecessary exception is an error.
EXCEPTIONS: Mapping[str, str] = {
    "Unreachable": "the name of an error is its reason, which is the same for a source and for the API server",
}


def duplicates(root: Path) -> dict[str, list[str]]:
    """Return the places of each public class name that more than one of our modules defines."""
    places = defaultdict(list)
    for path in (path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(root)}:{node.lineno}")
    return {name: found for name, found in places.items() if len(found) > 1}


def problems(root: Path, exceptions: Mapping[str, str]) -> Iterator[str]:
    """Yield all duplicates, and all unnecessary exceptions."""
    found = duplicates(root)
    for name in sorted(found.keys() - exceptions.keys()):
        yield f"two public classes are named {name} ({', '.join(found[name])}); rename one of them"
    for name in sorted(exceptions.keys() - found.keys()):
        yield f"the exception for {name} is no longer needed; remove it from rig/class_names.py"


def main() -> int:
    """Print all problems; return 1 if there are any."""
    wrong = list(problems(ROOT, EXCEPTIONS))
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
