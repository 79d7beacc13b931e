"""What `larder evict --dry-run` shows about one node."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.cli.evict.command import lines_of, main, previews
from controller.cli.evict.preview import Preview, SpaceRequest, preview
from shared.api.core import PODS, VOLUMES
from shared.api.model_node import PATH, EntryStatus, ModelNode
from shared.kube.errors import NotFound
from tests.builders.api_server import Objects, listed, serving
from tests.builders.cluster import entry, entry_status, model_node

NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
LONG_AGO = "2026-01-01T00:00:00Z"
USERS = {("used", "r1"): ("ns/pod",)}


def ready(name: str, frees: int, **fields: Any) -> EntryStatus:
    return entry_status(name, since=LONG_AGO, frees=frees, **fields)


def node(policy: str = "LeastRecentlyUsed", **short: Any) -> ModelNode:
    """A node with 30 of 100 bytes left, and a model of 60 bytes that waits for space."""
    entries = (entry("a", size=20), entry("b", size=25, priority=-1), entry("used", size=25), entry("new", size=60))
    reported = [ready("a", 20), ready("b", 25), ready("used", 25), entry_status("new", "Failed", **short)]
    made = model_node("n", *entries, reported=reported, used=70, disk_free=1000)
    return msgspec.structs.replace(
        made, spec=msgspec.structs.replace(made.spec, storage_limit=100, eviction_policy=policy)
    )


def asked(found: ModelNode, **question: Any) -> Preview:
    return preview(found, USERS, SpaceRequest(**question), NOW)


def results(found: Preview) -> list[tuple[str, str]]:
    return [(row.model, row.result) for row in found.rows]


def test_the_model_that_lacks_space_is_previewed_by_default() -> None:
    found = asked(node(reason="InsufficientStorage", shortage=30))
    assert found.lines[1:] == ("new lacks 30 B", "45 B can be evicted in total: enough")
    assert results(found) == [("b", "evict #1"), ("a", "evict #2"), ("used", "keep: in use by ns/pod")]


def test_the_size_of_the_model_counts_if_its_agent_reported_no_shortage() -> None:
    found = asked(node(), model="new")
    assert found.lines[1] == "new (Failed): 60 B needed, 30 B free"
    assert [v for _, v in results(found)][:2] == ["evict #1", "evict #2"]


def test_a_model_that_is_present_or_not_wanted_needs_no_eviction() -> None:
    assert asked(node(), model="a").lines[1] == "a is on this node"
    assert asked(node(), model="other").lines[1] == "other should not be on this node"


def test_bytes_given_as_an_argument_are_added_to_what_waiting_models_need() -> None:
    enough = asked(node(), need_bytes=10)
    assert enough.lines[1:] == ("10 B needed, 0 B free", "45 B can be evicted in total: enough")
    too_much = asked(node(), need_bytes=50)
    assert too_much.lines[2] == "45 B can be evicted in total: not enough, so nothing is evicted"
    assert results(too_much)[0] == ("b", "evictable")


def test_a_lower_priority_may_evict_fewer_models() -> None:
    low = asked(node(), need_bytes=10, priority=-1)
    assert ("a", "keep: priority 0 is higher than -1") in results(low)


def test_evictable_models_are_listed_in_order_if_no_model_lacks_space() -> None:
    found = asked(node())
    assert "no model lacks room" in found.lines[1]
    assert results(found)[:2] == [("b", "evictable"), ("a", "evictable")]


def test_the_result_column_is_shown_at_every_width() -> None:
    found = asked(node(reason="InsufficientStorage", shortage=30))
    for width in (80, 120, 0):
        shown = [line for line in lines_of(found, width) if line.startswith(" ")][len(found.lines) :]
        assert shown[0].split()[-1] == "RESULT"
        assert [line.split()[0] for line in shown[1:]] == ["b", "a", "used"]
        assert shown[3].endswith("keep: in use by ns/pod")
        assert not width or max(map(len, shown)) <= width


def test_a_node_whose_policy_forbids_eviction_is_reported() -> None:
    assert "evictionPolicy is Never" in asked(node("Never")).lines[0]


def test_statuses_of_an_earlier_node_of_this_name_do_not_count() -> None:
    found = node(reason="InsufficientStorage", shortage=30)
    other = msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, node_uid="other"))
    assert all("not Ready" in row.result for row in asked(other, need_bytes=1).rows)


def test_evicting_without_dry_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([])
    assert "evicts on its own" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "phrase"),
    [
        ("--need=5X", "'5X' is not a quantity; write a number with a unit"),
        ("--need=-5Gi", "'-5Gi' is not a quantity; write a number with a unit"),
        ("--need=0", "0 is not a positive size; write"),
        ("--idle=-5", "'-5' is not a duration; write a number of seconds"),
        ("--idle=nan", "'nan' is not a duration; write a number of seconds"),
        ("--idle=x", "'x' is not a duration; write a number of seconds"),
    ],
)
def test_a_number_that_is_invalid_is_refused(value: str, phrase: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--dry-run", value])
    assert phrase in capsys.readouterr().err


async def test_a_model_that_no_node_lists_is_not_found(tmp_path: Path) -> None:
    raw = msgspec.to_builtins(node())
    async with serving(
        Objects({PATH: listed(raw), f"{PATH}/n": raw, PODS: listed(), VOLUMES: listed()}), tmp_path
    ) as kube:
        (found,) = await previews(kube, None, SpaceRequest("new"), NOW)
        assert found.lines[1].startswith("new (Failed)")
        with pytest.raises(NotFound, match="no model with the id nosuch on any node"):
            await previews(kube, None, SpaceRequest("nosuch"), NOW)
        with pytest.raises(NotFound, match="no model with the id nosuch on node n"):
            await previews(kube, "n", SpaceRequest("nosuch"), NOW)


async def test_an_empty_node_name_means_all_nodes(tmp_path: Path) -> None:
    nodes = listed(msgspec.to_builtins(node()))
    collections = {PATH: nodes, f"{PATH}/": nodes, PODS: listed(), VOLUMES: listed()}
    async with serving(Objects(collections), tmp_path) as kube:
        assert [found.node for found in await previews(kube, "", SpaceRequest(), NOW)] == ["n"]
