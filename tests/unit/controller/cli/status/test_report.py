"""`larder status`: one row per model, counts of nodes, and a line for each required action."""

import io
import json
from typing import Any

import msgspec
import pytest
import yaml
from rich.console import Console

from controller.cli.status.report import ModelReport, ObservedModel, on_node, report_of, unlisted
from controller.cli.status.show import View, Writer
from shared.api.kinds import STATUS_KINDS
from shared.json_object import Json

DEFINITIONS = {d.kind: d for d in STATUS_KINDS}
# The longest words that these columns hold, and 40 nodes of 42 characters.
NODES = tuple(f"ip-10-128-{n:03}-017.us-west-2.compute.internal"[:42] for n in range(40))


def model(name: str, kind: str = "ClusterModelCache", namespace: str = "", **status: Any) -> ModelReport:
    body = {"metadata": {"name": name, "namespace": namespace}, "status": status}
    return report_of(DEFINITIONS[kind], msgspec.convert(body, ObservedModel))


def on(name: str, phase: str, **fields: Any) -> Json:
    return {"name": name, "phase": phase} | fields


def ready(status: str, reason: str, message: str = "") -> Json:
    return {"type": "Ready", "status": status, "reason": reason, "message": message}


def printed(*models: ModelReport, width: int = 0, output: str = "table", node: str = "") -> str:
    written = io.StringIO()
    console = Console(file=written, width=width or 80, color_system=None, highlight=False, markup=False, soft_wrap=True)
    Writer(console, View(output, width, node)).show(models)
    return written.getvalue()


FLEET = model(
    "llama-3-70b-instruct-with-a-very-long-name", storageStatus="Downloading", nodesReadyCount=38, nodesTotal=40,
    size=140 * 2**30, conditions=[ready("False", "InsufficientStorage")],
    nodes=[on(n, "Ready", percent=100) for n in NODES[:38]]
    + [on(n, "Failed", reason="InsufficientStorage", message="need 5, have 3") for n in NODES[38:]],
)  # fmt: skip


@pytest.mark.parametrize("width", [80, 120, 200])
def test_names_of_real_nodes_are_not_redacted(width: int) -> None:
    head, row, *rest = printed(FLEET, width=width).splitlines()
    for word in ("STATE", "READY", "REASON"):
        assert word in head.split()
    for word in ("Downloading", "38/40", "InsufficientStorage"):
        assert word in row.split()
    assert all(len(line) <= width for line in (head, row, *rest))
    assert ("95%" in row, "140.0 GiB" in row) == (width >= 120, width >= 120)
    assert rest[-1].strip() or rest  # the line of the problem is below, complete, wrapped between words
    output = " ".join(line.strip() for line in rest)
    assert f"on 2 nodes ({NODES[38]}, {NODES[39]}): InsufficientStorage: need 5, have 3" in output


def test_a_model_has_one_row_with_its_counts() -> None:
    head, row = printed(
        model("m", storageStatus="Downloading", nodesReadyCount=1, nodesTotal=2, size=2**30,
              conditions=[ready("False", "Downloading")], nodes=[on("b", "Downloading", percent=40), on("a", "Ready")])
    ).splitlines()  # fmt: skip
    assert head.split() == ["MODEL", "STATE", "READY", "DONE", "SIZE", "REASON"]
    assert row.split() == ["cmc/m", "Downloading", "1/2", "70%", "1.0", "GiB", "Downloading"]


def test_a_model_without_a_status_is_pending() -> None:
    row = printed(model("m", "BaseModel", "team")).splitlines()[1]
    assert row.split() == ["bm/team/m", "Pending", "0/0"]


def test_drift_and_removals_are_listed_below_the_table() -> None:
    says = [
        {"type": kind, "status": status, "reason": "R", "message": f"{kind} is {status}"}
        for kind, status in (("Drifted", "True"), ("Updating", "False"), ("Removing", "True"), ("Resolved", "True"))
    ]
    lines = printed(model("m", conditions=[ready("True", "Stocked"), *says])).splitlines()
    assert lines[2:] == ["cmc/m: Drifted: Drifted is True", "cmc/m: Removing: Removing is True"]


def test_required_actions_are_listed_below_the_table() -> None:
    failed = model("m", nodes=[on("a", "Failed", reason="InsufficientStorage", message="need 5, have 3")])
    unresolved = model("n", "ClusterBaseModel", conditions=[ready("False", "SourceNotFound", "no such repository")])
    busy = model("o", conditions=[ready("False", "Downloading", "1 of 2")])
    lines = printed(failed, unresolved, busy).splitlines()
    assert lines[-2:] == [
        "cmc/m on a: InsufficientStorage: need 5, have 3",
        "cbm/n: SourceNotFound: no such repository",
    ]


def test_foreign_text_is_printed_without_control_characters() -> None:
    odd = model("m", storageStatus="[red]", nodes=[on("a", "x", reason="[x]", message="[Errno 28] [/no]\x1b[2J\rgone")])
    shown = printed(odd)
    for word in ("[red]", "[x]", r"[Errno 28] [/no]\x1b[2J\rgone"):
        assert word in shown


def test_without_models_the_searched_namespaces_are_named() -> None:
    assert printed() == "no models are declared, in any namespace or cluster-wide\n"


def test_wide_output_shows_every_column_and_a_line_per_node() -> None:
    shown = printed(FLEET, width=80, output="wide").splitlines()
    assert shown[0].split() == ["MODEL", "STATE", "READY", "DONE", "SIZE", "REASON", "REVISION", "NODES", "SOURCE"]
    assert "38 Ready, 2 Failed" in shown[1]
    assert "140.0 GiB" in shown[1]
    by_node = [line.split() for line in shown[shown.index("") + 2 :]]
    assert [row[0] for row in by_node] == sorted(NODES)
    assert by_node[-1][1:] == [FLEET.model, "Failed", "0%", "InsufficientStorage"]


def test_wide_output_notes_that_a_status_does_not_list_all_nodes() -> None:
    large = model("m", nodesTotal=5000, nodesReadyCount=4999, nodes=[on("a", "Failed", reason="R", message="m")])
    assert printed(large, output="wide").splitlines()[-1] == "cmc/m: its status lists 1 of 5000 nodes"


def test_status_of_one_node_shows_the_state_of_each_model_on_it() -> None:
    elsewhere = model("other", nodes=[on("b", "Ready")])
    shown = on_node([FLEET, elsewhere], NODES[39])
    head, row, problem = printed(*shown, node=NODES[39]).splitlines()
    assert head.split() == ["MODEL", "STATE", "DONE", "SIZE", "REASON"]
    assert row.split() == [FLEET.model, "Failed", "0%", "140.0", "GiB", "InsufficientStorage"]
    assert problem == f"{FLEET.model} on {NODES[39]}: InsufficientStorage: need 5, have 3"
    assert printed(node="x").startswith("no model should be on node x")


def test_a_node_that_a_long_status_does_not_list_is_noted() -> None:
    large = model("m", nodesTotal=5000, nodes=[on("a", "Failed"), on("b", "Failed")])
    assert unlisted([large, FLEET], "a") == []
    (note,) = unlisted([large, FLEET], "c")
    assert note == (
        "cmc/m is not shown: its status lists 2 of its 5000 nodes, and not c; `larder why node/c` shows more"
    )


def test_models_can_be_printed_as_json_yaml_and_names() -> None:
    reported = json.loads(printed(FLEET, output="json"))["models"][0]
    assert reported == yaml.safe_load(printed(FLEET, output="yaml"))["models"][0]
    assert (reported["resource"], reported["state"], reported["ready"], reported["total"]) == (
        "clustermodelcache.serving.kserve.io/llama-3-70b-instruct-with-a-very-long-name", "Downloading", 38, 40
    )  # fmt: skip
    assert len(reported["nodes"]) == 40
    assert printed(FLEET, model("m", "BaseModel", "team"), output="name").splitlines() == [
        FLEET.resource,
        "basemodel.ome.io/m",
    ]
    assert json.loads(printed(output="json")) == {"models": []}


def test_only_terminals_get_colours() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, color_system="standard", width=80, soft_wrap=True)
    Writer(console, View(width=80)).show([FLEET])
    assert "\x1b[36mDownloading\x1b[0m" in written.getvalue()


def test_a_model_of_the_operator_shows_its_phase_and_progress() -> None:
    status = {"phase": "Downloading", "progress": 40, "conditions": [ready("False", "Downloading")]}
    head, row = printed(model("llama", "Model", "team", **status)).splitlines()
    assert head.split() == ["MODEL", "STATE", "READY", "DONE", "SIZE", "REASON"]
    assert row.split() == ["mdl/team/llama", "Downloading", "0/0", "40%", "Downloading"]


def test_a_failed_model_of_the_operator_is_reported_as_a_problem() -> None:
    failed = model("llama", "Model", "team", phase="Failed", conditions=[ready("False", "AuthDenied", "no token")])
    assert failed.problems == ["mdl/team/llama: AuthDenied: no token"]


@pytest.mark.parametrize(
    ("conditions", "state", "problems"),
    [
        ([], "Pending", 0),
        ([ready("False", "Queued", "1 of 3 pods run")], "Pending", 0),
        ([{"type": "Running", "status": "True"}, ready("True", "Running")], "Running", 0),
        ([{"type": "Running", "status": "True"}, ready("False", "NameConflict", "taken")], "Running", 1),
        ([{"type": "Suspended", "status": "True"}, ready("False", "Suspended")], "Suspended", 0),
        ([{"type": "Succeeded", "status": "True"}, ready("True", "Succeeded")], "Succeeded", 0),
        ([{"type": "Failed", "status": "True"}, ready("False", "PodFailed", "exit code 2")], "Failed", 1),
    ],
)
def test_the_row_of_a_training_job_has_its_state_and_finished_pods(
    conditions: list[Json], state: str, problems: int
) -> None:
    roles = {"Master": {"active": 1}, "Worker": {"succeeded": 1, "failed": 1}}
    found = model("tj", "TrainingJob", "team", running="1/3", replicaStatuses=roles, conditions=conditions)
    assert (found.model, found.state, found.ready, found.total, found.percent) == ("tj/team/tj", state, 2, 3, None)
    assert len(found.problems) == problems
