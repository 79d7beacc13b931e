"""The contents of a bundle, their limits, and the choice of logs."""

import json
import os
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cli.support.bundle import open_bundle
from controller.cli.support.command import main
from controller.cli.support.line_budget import LineBudget
from controller.cli.support.pieces import MAX_AGENTS, choose_pods, logs_of
from controller.cli.support.summary import node_line
from controller.cli.support.trim import (
    reports_problem,
    selector_keys,
    trim_definition,
    trim_model,
    trim_node,
    trim_workload,
)
from shared.api.kinds import CLUSTER_BASE_MODEL
from shared.json_object import Json

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def pod(name: str, component: str, *, ready: bool = True, node: str = "", **status: Any) -> Json:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    labels = {"app.kubernetes.io/name": "larder", "app.kubernetes.io/component": component}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": node, "initContainers": [{"name": "init"}], "containers": [{"name": "main"}]},
        "status": {"conditions": conditions, **status},
    }


def test_controllers_and_unready_agents_are_chosen_before_other_agents() -> None:
    well = [pod(f"agent-{i:03}", "agent", node=f"n{i:03}") for i in range(100)]
    pods = [*well, pod("agent-x", "agent", ready=False), pod("agent-y", "agent", node="bad"), pod("c", "controller")]
    chosen = [p["metadata"]["name"] for p in choose_pods(pods, frozenset({"bad"}))]
    assert chosen[:4] == ["c", "agent-x", "agent-y", "agent-000"]
    assert len(chosen) == 1 + MAX_AGENTS


def test_pods_of_others_are_not_asked_for_logs() -> None:
    other = pod("x", "controller")
    other["metadata"]["labels"] = {}
    assert choose_pods([other], frozenset()) == []


def test_a_container_that_was_restarted_has_two_logs() -> None:
    statuses = [{"name": "main", "restartCount": 2}, {"name": "init", "restartCount": 0}]
    logs = [log.file for log in logs_of(pod("c", "controller", containerStatuses=statuses))]
    assert logs == ["logs/c/init.log", "logs/c/main.log", "logs/c/main.previous.log"]


@given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=60), st.integers(0, 200))
def test_a_line_budget_is_never_exceeded_and_counts_what_is_left_out(lines: list[tuple[int, bool]], room: int) -> None:
    budget = LineBudget(room)
    for size, urgent in lines:
        budget.put(b"u" * size if urgent else b"o" * size, urgent=urgent)
    kept = list(budget)
    assert sum(len(line) for line in kept) <= room
    assert len(kept) + budget.left_out == len(lines)


def test_urgent_files_displace_others() -> None:
    budget = LineBudget(4)
    budget.put(b"aa", urgent=False)
    budget.put(b"bb", urgent=False)
    budget.put(b"xx", urgent=False)
    assert list(budget) == [b"aa", b"bb"], "the first files stay"
    budget.put(b"cc", urgent=True)
    assert (list(budget), budget.left_out) == ([b"cc", b"aa"], 2)


def test_a_full_budget_has_room_only_for_an_urgent_file() -> None:
    budget = LineBudget(100)
    assert budget.has_room(urgent=False)
    budget.put(b"o" * 99, urgent=False)
    assert not budget.has_room(urgent=False)
    assert budget.has_room(urgent=True), "it displaces the other file"
    budget.put(b"u" * 99, urgent=True)
    assert not budget.has_room(urgent=True)
    assert (len(budget), budget.left_out) == (1, 3)


def test_a_bundle_has_the_fields_of_a_model_that_larder_knows() -> None:
    spec = {"storage": {"storageUri": "hf://a/b", "note": "x"}, "disabled": True, "later": {"y": 1}}
    reported = trim_model(CLUSTER_BASE_MODEL)({"metadata": {"name": "m"}, "spec": spec})["spec"]
    assert reported["storage"]["storageUri"] == "hf://a/b"
    assert reported["disabled"] is True
    assert "removed" in reported["later"]
    assert "removed" in reported["storage"]["note"]


def test_a_bundle_has_the_fields_of_a_node_that_placement_reads() -> None:
    labels = {"gpu": "yes", "team": "x", "model-cache-ready-m": "true", "kubernetes.io/hostname": "a"}
    node = {
        "metadata": {"name": "a", "labels": labels, "annotations": {"secret": "x"}},
        "spec": {"taints": [{"key": "t", "effect": "NoSchedule"}], "providerID": "p"},
        "status": {"capacity": {"cpu": "8"}, "images": [{"names": ["x"]}], "addresses": [{"address": "10.0.0.1"}]},
    }
    reported = trim_node(node, {"gpu"})
    assert reported["metadata"]["labels"].keys() == {"gpu", "model-cache-ready-m", "kubernetes.io/hostname"}
    assert reported["spec"] == {"taints": [{"key": "t", "effect": "NoSchedule"}]}
    assert reported["status"] == {"capacity": {"cpu": "8"}}


def test_label_keys_of_selectors_and_affinities_are_collected() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    models: list[Json] = [
        {"spec": {"nodeSelector": {"gpu": "yes"}}},
        {"spec": {"storage": {"nodeSelector": {"pool": "a"}, "nodeAffinity": affinity}}},
    ]
    assert selector_keys(models) == {"gpu", "pool", "zone"}


def test_foreign_workloads_are_reduced_to_name_and_status() -> None:
    reported = trim_workload(
        {"metadata": {"name": "x", "annotations": {"a": "b"}}, "spec": {"y": 1}, "status": {"phase": "Running"}}
    )
    assert reported == {"metadata": {"name": "x"}, "note": "does not belong to Larder", "status": {"phase": "Running"}}


def test_a_kind_is_reported_without_its_schema() -> None:
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"big": 1}}]
    reported = trim_definition(
        {"metadata": {"name": "k"}, "spec": {"versions": versions}, "status": {"storedVersions": ["v1"]}}
    )
    assert reported["spec"]["versions"] == [{"name": "v1", "served": True, "storage": True}]


@pytest.mark.parametrize(
    ("item", "urgent"),
    [
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, True),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, False),
        ({"status": {"entries": [{"reason": "AuthDenied"}]}}, True),
        ({"metadata": {"generation": 3}, "spec": {"entries": []}, "status": {"observedGeneration": 2}}, True),
        ({"metadata": {"generation": 3}, "spec": {"replicas": 1}}, False),
        ({"type": "Warning"}, True),
        ({}, False),
    ],
)
def test_files_that_show_problems_are_urgent(item: Json, *, urgent: bool) -> None:
    assert reports_problem(item) is urgent


def test_a_model_node_is_summarised_in_one_line() -> None:
    entries = [{"reason": "AuthDenied"}, {"reason": "AuthDenied"}, {}]
    model_node = {
        "metadata": {"name": "a", "generation": 4},
        "spec": {"storageLimit": 100, "entries": [{}, {}, {}]},
        "status": {"observedGeneration": 3, "readyCount": 1, "entries": entries, "used": 7, "agentVersion": "0.1.0"},
    }
    assert node_line(model_node).split("\t") == ["a", "4", "3", "1", "3", "AuthDenied:2", "7", "0", "100", "0", "0.1.0"]


def test_an_unfinished_bundle_leaves_no_file(tmp_path: Path) -> None:
    def stop() -> None:
        with open_bundle(tmp_path / "x.tar.gz", NOW) as bundle:
            bundle.add("a.txt", "a", b"a")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        stop()
    assert list(tmp_path.iterdir()) == []


def test_the_same_content_is_the_same_archive(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with open_bundle(tmp_path / name / "x.tar.gz", NOW) as bundle:
            bundle.add("b.txt", "b", b"b", left_out=2)
            bundle.record_missing("c.txt", "not allowed")
            bundle.close()
    with tarfile.open(tmp_path / "one" / "x.tar.gz") as one, tarfile.open(tmp_path / "two" / "x.tar.gz") as two:
        assert [m.get_info() for m in one] == [m.get_info() for m in two]
        index = one.extractfile("larder-support/index.json")
        errors = one.extractfile("larder-support/errors.txt")
        assert index is not None
        assert errors is not None
        assert [c["file"] for c in json.load(index)["files"]] == ["b.txt", "errors.txt"]
        assert errors.read() == b"c.txt: not allowed\n"


@pytest.mark.parametrize("is_link", [True, False])
def test_a_bundle_is_not_written_into_a_file_that_was_there(tmp_path: Path, *, is_link: bool) -> None:
    path, draft, other = tmp_path / "bundle.tar.gz", tmp_path / ".bundle.tar.gz.part", tmp_path / "other"
    other.write_text("before")
    draft.symlink_to(other) if is_link else other.rename(draft)
    with draft.open() as reader, open_bundle(path, NOW) as bundle:
        bundle.close()
        assert draft.stat().st_ino != os.fstat(reader.fileno()).st_ino
    assert path.stat().st_mode & 0o777 == 0o600
    assert not path.is_symlink()


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (["-o", "."], "'.' is not the name of a file"),
        (["-o", ""], "'' is not the name of a file"),
        (["-o", "/tmp"], "'/tmp' is not the name of a file"),  # noqa: S108 - nothing is written
        (["--lines", "many"], "'many' is not a positive number of lines"),
        (["--lines", "0"], "'0' is not a positive number of lines"),
    ],
)
def test_an_argument_that_is_invalid_is_refused(
    arguments: list[str], phrase: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert phrase in capsys.readouterr().err
