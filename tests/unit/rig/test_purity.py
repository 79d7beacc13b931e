from pathlib import Path

import pytest

from rig.purity import is_pure, problems


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / "agent" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("module", "head", "pure"),
    [
        ("agent.reconciler.decide", "", True),
        ("controller.models.report", "", True),
        ("controller.placement.demand", "", True),
        ("controller.claims.outcome", "What a Job says. No input or output, no clock.", True),
        ("agent.store.reservations", "Who was promised bytes: plain arithmetic.", True),
        ("agent.store.store", "The store.", False),
        ("controller.cli.status.reporting", "", False),
    ],
)
def test_purity_follows_the_name_or_the_docstring_of_a_module(module: str, head: str, *, pure: bool) -> None:
    assert is_pure(module, head) is pure


@pytest.mark.parametrize("name", ["os", "random", "threading", "time", "asyncio", "httpx"])
def test_no_pure_module_imports_input_output_clocks_or_threads(tmp_path: Path, name: str) -> None:
    write(tmp_path, decide=f"import {name}\n")
    assert list(problems(tmp_path, {})) == [f"agent.decide -> {name}"]


def test_modules_that_a_pure_one_imports_must_be_pure(tmp_path: Path) -> None:
    write(
        tmp_path,
        decide="def f():\n    from agent.helper import g\n",
        helper="from os import path\n",
        free="import os\n",
    )
    assert list(problems(tmp_path, {})) == ["agent.decide -> agent.helper -> os.path"]


def test_a_call_of_datetime_now_is_reported(tmp_path: Path) -> None:
    write(tmp_path, decide="from datetime import datetime\n\nNOW = datetime.now()\n")
    assert list(problems(tmp_path, {})) == ["agent.decide:3 calls datetime.now"]


def test_imports_for_type_checking_are_allowed(tmp_path: Path) -> None:
    write(tmp_path, decide="from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from pathlib import Path\n")
    assert not list(problems(tmp_path, {}))


def test_a_listed_exception_allows_its_import(tmp_path: Path) -> None:
    write(tmp_path, decide="import agent.helper\n", helper="import os\n")
    assert not list(problems(tmp_path, {("agent.decide", "agent.helper"): "why"}))


def test_an_unneeded_exception_is_reported(tmp_path: Path) -> None:
    write(tmp_path, decide="import agent.helper\n", helper="")
    (found,) = problems(tmp_path, {("agent.decide", "agent.helper"): "why"})
    assert "is no longer needed" in found
