"""What `larder why` reports about a model whose revision is changing."""

from dataclasses import replace
from typing import Any

import msgspec

from controller.cli.why.command import render
from controller.cli.why.findings import Severity
from controller.cli.why.view import DeclaredModel
from controller.placement.demand_of_kind import cache_demand
from shared.api.meta import Condition
from tests.builders.cluster import cache, entry, entry_status, group, model_node
from tests.builders.why import GPU, LABELS, declared, node, of_model, reasons, reported, seen


def model(*conditions: Condition, **status: Any) -> DeclaredModel:
    """A cache with these conditions, whose nodes have r1."""
    found = cache("m", "gpus")
    found = msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, **status))
    return declared(found, says=conditions)


def test_a_changed_source_is_reported_with_how_to_update_to_it() -> None:
    drifted = reported("SourceMoved", "it is r9 by now; set larder.dev/refresh", "Drifted", "True")
    answer = of_model(seen(model(drifted)))
    assert reasons(answer) == set(), "nothing is stuck"
    assert "Drifted" in reasons(answer, Severity.FACT)
    assert "larder.dev/refresh" in render(answer)


def test_a_source_that_could_not_be_checked_is_reported() -> None:
    answer = of_model(seen(model(reported("Unreachable", "no route", "Drifted", "Unknown"))))
    assert "NotChecked" in reasons(answer, Severity.FACT)
    assert reasons(answer) == set()


def test_a_pending_refresh_is_reported_as_waiting_and_an_unanswerable_one_as_a_problem() -> None:
    def asked(*conditions: Condition) -> DeclaredModel:
        found = model(*conditions)
        return replace(found, demand=replace(found.demand, refresh="2", refreshed="1"))

    assert "Asking" in reasons(of_model(seen(asked())), Severity.WAIT)
    assert "Asking" in reasons(of_model(seen(asked(reported("Unchanged", "", "Refreshed", "True")))), Severity.WAIT)
    denied = of_model(seen(asked(reported("AuthDenied", "the hub refuses", "Refreshed"))))
    assert "AuthDenied" in reasons(denied, Severity.STOP)
    answered = of_model(seen(model(reported("Unchanged", "the same revision", "Refreshed", "True"))))
    assert "Unchanged" in reasons(answered, Severity.FACT)


def test_missing_space_for_both_revisions_is_reported_as_a_problem() -> None:
    updating = reported("InsufficientStorage", "pods get r1; a: need 5, have 3", "Updating", "True")
    answer = of_model(seen(model(updating)))
    assert "InsufficientStorage" in reasons(answer, Severity.STOP)
    assert "both revisions must fit for a while" in render(answer)
    loading = of_model(seen(model(reported("Downloading", "0 of 2", "Updating", "True"))))
    assert "Downloading" in reasons(loading, Severity.WAIT)


def test_nodes_with_several_revisions_are_named_with_their_sizes() -> None:
    entries = (entry("m", size=2**30), entry("m", "r0", size=2**31))
    found = model_node("a", *entries, reported=[entry_status("m"), entry_status("m", revision="r0")])
    cluster = seen(model_nodes={"a": found}, nodes=(node("a", GPU | LABELS),), groups=(group("gpus", GPU),))
    output = render(of_model(cluster))
    assert "MultipleRevisions: a: r1 (1.0 GiB) and r0 (2.0 GiB)" in output


def test_old_files_still_in_use_are_reported_with_their_users() -> None:
    kept = reported("InUse", "revision r0 on a: kept while in use by ns/p", "Removing", "True")
    answer = of_model(seen(model(kept)))
    assert "InUse" in reasons(answer, Severity.WAIT)
    assert "ns/p" in render(answer)
    gone = model(reported("Gone", "", "Removing"))
    assert "Gone" not in reasons(of_model(seen(gone)), *Severity)


def test_the_removed_bytes_of_a_model_that_is_being_deleted_are_reported() -> None:
    going = reported("Removing", "revision r1 on a: 1.0 GiB of at most 2.0 GiB are gone", "Removing", "True")
    deleted = cache("m", "gpus", deletion_timestamp="2026-01-01T00:00:00Z")
    found = declared(deleted, says=[going])
    assert found.demand == cache_demand("ClusterModelCache", deleted)
    assert "1.0 GiB of at most 2.0 GiB" in render(of_model(seen(found)))
