"""The unit tests of a package are in the folder of its name: those of `agent/store` in `tests/unit/agent/store`."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "tests" / "unit"
PROGRAMS = ("agent", "controller", "rig", "shared")
TESTS = sorted(path.relative_to(UNIT) for program in PROGRAMS for path in (UNIT / program).rglob("test_*.py"))


def names_in(folder: str | Path) -> set[str]:
    """Return the names of the packages and modules in a folder of the source."""
    return {path.stem for path in (ROOT / folder).iterdir() if path.suffix == ".py" or path.is_dir()}


def imports_in(path: Path) -> set[str]:
    """Return the modules that a file imports."""
    return set(re.findall(r"^(?:from|import) ([\w.]+)", path.read_text(), re.MULTILINE))


def imports_of(path: Path) -> set[str]:
    """Return the modules that a test imports, itself or through its builders."""
    found = imports_in(path)
    ours = [name for name in found if name.startswith("tests.")]
    return found.union(*(imports_of(ROOT / f"{name.replace('.', '/')}.py") for name in ours))


def test_no_test_module_imports_another() -> None:
    """Code that several tests need is in `tests/builders`, `tests/readers`, or beside them."""
    files = (ROOT / "tests").rglob("*.py")
    assert [str(file) for file in files if any(re.match(r"tests\..*\.test_", name) for name in imports_in(file))] == []


def test_every_folder_is_named_after_a_package() -> None:
    assert TESTS
    assert [str(test) for test in TESTS if not (ROOT / test.parent / "__init__.py").exists()] == []


def test_a_test_named_after_a_module_is_in_the_folder_of_that_module() -> None:
    """Tests named after anything else concern their package."""
    modules = {program: {path.stem for path in (ROOT / program).rglob("*.py")} for program in PROGRAMS}
    misplaced = [
        str(test)
        for test in TESTS
        if (subject := test.stem.removeprefix("test_")) in modules[test.parts[0]] - {test.parent.name}
        and subject not in names_in(test.parent)
    ]
    assert misplaced == []


def test_folders_with_package_fixtures_are_packages() -> None:
    """Without an `__init__.py`, pytest keeps fixtures of package scope until the session ends."""
    started = [
        path
        for path in (ROOT / "tests").rglob("*.py")
        if '@pytest.fixture(scope="package"' in path.read_text() and path != Path(__file__)
    ]
    assert started
    assert [str(path) for path in started if not (path.parent / "__init__.py").exists()] == []


def test_every_test_imports_the_package_that_it_tests() -> None:
    strays = [
        str(test)
        for test in TESTS
        if not any(f"{name}.".startswith(f"{'.'.join(test.parent.parts)}.") for name in imports_of(UNIT / test))
    ]
    assert strays == []
