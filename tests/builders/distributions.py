"""Distributions with entry points, as an installer leaves them in a folder of the Python path."""

import subprocess
import sys
from pathlib import Path

_EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
_PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]


def install_example(name: str, site: Path) -> None:
    """Install one of the examples of the documentation, without an index."""
    subprocess.run([*_PIP, "--target", str(site), str(_EXAMPLES / name)], check=True, capture_output=True)  # noqa: S603 - our own text


def install(site: Path, name: str, group: str, source: str, points: str = "") -> None:
    """Write a module `name` and its entry points; by default, one entry point with the same name for `make`."""
    site.mkdir(exist_ok=True)
    (site / f"{name}.py").write_text(source)
    facts = site / f"{name}-1.0.dist-info"
    facts.mkdir(exist_ok=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[{group}]\n{points or f'{name} = {name}:make'}\n")
