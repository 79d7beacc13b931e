from pathlib import Path

from rig.class_names import problems


def write(root: Path, *files: str) -> None:
    for number, text in enumerate(files):
        path = root / "shared" / f"module_{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_a_name_that_is_listed_twice_is_reported_with_its_places(tmp_path: Path) -> None:
    write(tmp_path, "class View: ...\n", "\nclass View: ...\n", "class Other: ...\n")
    assert list(problems(tmp_path, {})) == [
        "two public classes are named View (shared/module_0.py:1, shared/module_1.py:2); rename one of them"
    ]


def test_private_and_nested_classes_may_repeat(tmp_path: Path) -> None:
    text = "class _View: ...\n\n\ndef f():\n    class View: ...\n"
    write(tmp_path, text, text)
    assert list(problems(tmp_path, {})) == []


def test_an_exception_that_is_not_needed_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "class View: ...\n", "class View: ...\n")
    assert list(problems(tmp_path, {"View": "a reason"})) == []
    assert list(problems(tmp_path, {"View": "a reason", "Gone": "a reason"})) == [
        "the exception for Gone is no longer needed; remove it from rig/class_names.py"
    ]
