"""`larder status`: a row a model, a column a node, and a line for what somebody may have to do."""

import io
from typing import Any

from rich.console import Console

from controller.cli.report import MOST_NODES, build_table
from controller.cli.status import show

Json = dict[str, Any]


def model(name: str, kind: str = "ClusterModelCache", **status: Any) -> Json:
    return {"kind": kind, "metadata": {"name": name}, "status": status}


def on(name: str, phase: str, **fields: Any) -> Json:
    return {"name": name, "phase": phase} | fields


def ready(status: str, reason: str, message: str = "") -> Json:
    return {"type": "Ready", "status": status, "reason": reason, "message": message}


def printed(*models: Json, nodes: tuple[str, ...] = ("a", "b")) -> str:
    output = io.StringIO()
    Console(file=output, width=200, color_system=None).print(show(build_table(models, nodes)))
    return output.getvalue()


def test_a_row_a_model_and_a_column_a_node() -> None:
    cached = model(
        "m", storageStatus="Downloading", ready="1/2", size=2**30, conditions=[ready("False", "Downloading")],
        nodes=[on("b", "Downloading", percent=40), on("a", "Ready")],
    )  # fmt: skip
    head, row = printed(cached).splitlines()
    assert head.split() == ["MODEL", "STATE", "READY", "SIZE", "a", "b", "REASON"]
    assert row.split() == ["cmc/m", "Downloading", "1/2", "1.0", "GiB", "Ready", "Downloading", "40%", "Downloading"]


def test_a_model_without_a_status_is_pending() -> None:
    row = printed({"kind": "BaseModel", "metadata": {"name": "m", "namespace": "team"}}).splitlines()[1]
    assert row.split() == ["bm/team/m", "Pending", "0/0", "-", "-"]


def test_revisions_on_the_move_stand_below() -> None:
    says = [
        {"type": kind, "status": status, "reason": "R", "message": f"{kind} is {status}"}
        for kind, status in (("Drifted", "True"), ("Updating", "False"), ("Removing", "True"), ("Resolved", "True"))
    ]
    lines = printed(model("m", conditions=[ready("True", "Stocked"), *says])).splitlines()
    assert [line.rstrip() for line in lines[2:] if line.strip()] == [
        "cmc/m: Drifted: Drifted is True",
        "cmc/m: Removing: Removing is True",
    ]


def test_more_nodes_than_columns_are_left_to_the_reasons() -> None:
    head = printed(model("m"), nodes=tuple(f"n{i}" for i in range(MOST_NODES + 1))).splitlines()[0]
    assert head.split() == ["MODEL", "STATE", "READY", "SIZE", "REASON"]


def test_what_somebody_may_have_to_do_stands_below() -> None:
    failed = model("m", nodes=[on("a", "Failed", reason="InsufficientStorage", message="need 5, have 3")])
    unresolved = model("n", "ClusterBaseModel", conditions=[ready("False", "SourceNotFound", "no such repository")])
    busy = model("o", conditions=[ready("False", "Downloading", "1 of 2")])
    lines = printed(failed, unresolved, busy).splitlines()
    assert [line.rstrip() for line in lines[-2:]] == [
        "cbm/n: SourceNotFound: no such repository",
        "cmc/m on a: InsufficientStorage: need 5, have 3",
    ]


def test_brackets_in_others_words_are_words() -> None:
    odd = model("m", storageStatus="[red]", nodes=[on("a", "[/bold]", reason="[x]", message="[Errno 28] [/nothing]")])
    shown = printed(odd)
    for word in ("[red]", "[/bold]", "[Errno 28] [/nothing]"):
        assert word in shown


def test_without_models_it_says_so() -> None:
    assert "no models are declared" in printed()
