"""Faults during downloads, and what labels and status show meanwhile."""

import hashlib
import os
import random
import re
import signal
import time

import msgspec
import pytest

from rig.control_plane import ControlPlane
from rig.hub.faults import Corrupt, Refuse, Stall
from rig.hub.repository import RepositoryAccess
from shared.api.model_node import Claim
from shared.api.wire import ClaimCredentials, EntryProgress, Problem
from tests.integration.agent.node_under_test import Bench, Model
from tests.integration.agent.sentinel import Sentinel

WEIGHTS = random.Random(1).randbytes(6_000_000)
FILES = {"config.json": b'{"a": 1}', "model.safetensors": WEIGHTS}
HALF = 3_000_000
LARGE = f"*{hashlib.sha256(WEIGHTS).hexdigest()}"  # where the hub sends one for the large file
GRACE_S = 20.0  # the grace period of agents in the chart


def is_half_there(bench: Bench) -> bool:
    """Return whether a large part of the unfinished file is on the disk, so the next agent can resume."""
    return bench.unfinished_bytes() >= HALF // 2


def test_an_agent_killed_during_a_download_resumes_from_the_verified_bytes(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.hub.faults.add(Stall(HALF), LARGE)
    bench.want(model.entry)
    with Sentinel(bench, model) as sentinel:
        agent = bench.start()
        bench.wait_for(lambda: is_half_there(bench), "half of the file")
        agent.kill()
        bench.hub.faults.clear()
        bench.hub.journal.clear()
        bench.start()
        bench.wait_phase(model, "Ready")
        bench.wait_for(lambda: sentinel.looks > 10, "the sentinel to look")
    assert sentinel.lies == []
    first, *_ = bench.hub.journal.requests(LARGE, method="GET", host="cdn")
    assert first.range is not None
    assert int(first.range.removeprefix("bytes=").split("-")[0]) >= HALF // 2


def test_what_a_killed_agent_downloaded_is_removed_with_its_model(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.hub.faults.add(Stall(HALF), LARGE)
    bench.want(model.entry)
    agent = bench.start()
    bench.wait_for(lambda: is_half_there(bench), "half of the file")
    agent.kill()
    bench.want(msgspec.structs.replace(model.entry, state="Absent"))
    bench.start()
    bench.wait_phase(model, "Absent")
    assert list((bench.root / "partial").iterdir()) == []


def test_an_agent_killed_at_random_moments_never_labels_missing_files(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.want(model.entry, bandwidth_limit=4_000_000)
    chance = random.Random(2)
    with Sentinel(bench, model) as sentinel:
        for _ in range(4):
            agent = bench.start(ready=False)
            time.sleep(chance.uniform(0.5, 2.5))  # random moments are the point of this test
            agent.kill()
        bench.start()
        bench.wait_phase(model, "Ready")
    assert sentinel.lies == []


def test_files_with_wrong_digests_never_become_a_snapshot(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.hub.faults.add(Corrupt(HALF), LARGE)
    bench.want(model.entry)
    bench.start()
    status = bench.wait_phase(model, "Failed", "DigestMismatch")
    assert "model.safetensors" in status.message
    assert bench.labels() == set()
    assert not bench.snapshot(model).exists()

    bench.hub.faults.clear()
    bench.wait_phase(model, "Ready")


def test_a_model_that_does_not_fit_is_reported_and_others_are_not_affected(bench: Bench) -> None:
    large = bench.add_model("large", FILES)
    small = bench.add_model("small", {"config.json": b"x" * 1000})
    bench.start()
    bench.want(large.entry, small.entry, storage_limit=1_000_000)
    status = bench.wait_phase(large, "Failed", "InsufficientStorage")
    bench.wait_phase(small, "Ready")
    assert "limit 1000000 bytes" in status.message
    assert "can never fit" in status.message
    need = re.search(r"need (\d+) bytes", status.message)
    assert need is not None
    assert int(need[1]) >= large.manifest.size_bytes
    assert status.shortage == 0

    bench.want(large.entry, small.entry, storage_limit=10_000_000)
    bench.wait_phase(large, "Ready")


def test_a_waiting_model_is_fetched_once_space_is_freed_without_a_change_of_its_entry(bench: Bench) -> None:
    first = bench.add_model("first", {"model.bin": WEIGHTS})
    second = bench.add_model("second", {"model.bin": WEIGHTS[::-1]})
    bench.start()
    bench.want(first.entry, storage_limit=8_000_000)
    bench.wait_phase(first, "Ready")
    bench.want(first.entry, second.entry, storage_limit=8_000_000)
    bench.wait_phase(second, "Failed", "InsufficientStorage")
    leaving = msgspec.structs.replace(first.entry, state="Absent")
    bench.want(leaving, second.entry, storage_limit=8_000_000)
    bench.wait_phase(second, "Ready")
    assert not bench.snapshot(first).exists()


def test_sigterm_stops_a_stalled_download_and_keeps_the_received_bytes(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.hub.faults.add(Stall(HALF), LARGE)
    bench.want(model.entry)
    agent = bench.start()
    bench.wait_for(lambda: is_half_there(bench), "half of the file")
    agent.stop(GRACE_S)
    assert agent.exit_code == 0
    assert is_half_there(bench)
    assert bench.count("agent_stopped") == 1

    bench.hub.faults.clear()
    bench.start()
    bench.wait_phase(model, "Ready")


def test_an_idle_agent_stops_within_its_grace_period(bench: Bench) -> None:
    bench.want()
    agent = bench.start()
    agent.stop(GRACE_S)
    assert agent.exit_code == 0


def test_downloads_continue_while_the_api_server_restarts(bench: Bench, agent_plane: ControlPlane) -> None:
    model = bench.add_model("llama", FILES)
    later = bench.add_model("later", {"config.json": b"later"})
    bench.want(model.entry, bandwidth_limit=200_000)  # half a minute, so that the test can observe the running download
    with Sentinel(bench, model) as sentinel:
        agent = bench.start()
        bench.wait_phase(model, "Downloading")
        agent_plane.restart_apiserver()
        bench.want(model.entry, later.entry)
        bench.wait_phase(model, "Ready")
        bench.wait_phase(later, "Ready")
    assert sentinel.lies == []
    assert agent.exit_code is None


def test_a_refusal_of_the_controller_is_retried(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.controller.refusals["/v1/credentials"] = Problem("NotGranted", "this node does not list llama yet")
    bench.start()
    bench.want(model.entry)
    bench.wait_phase(model, "Pending", "NotGranted")
    bench.controller.refusals.clear()
    bench.wait_phase(model, "Ready")


def test_a_replaced_token_file_is_used(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.token_file.write_text("old")
    bench.start()
    bench.want(model.entry)
    bench.wait_phase(model, "Pending", "NotGranted")
    bench.token_file.write_text(bench.controller.token)
    bench.wait_phase(model, "Ready")


def test_a_download_completes_although_progress_reports_are_refused(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.controller.refusals["/v1/progress"] = Problem("NotGranted", "no")
    bench.start()
    bench.want(model.entry, bandwidth_limit=3_000_000)
    bench.wait_phase(model, "Ready")


def test_progress_is_reported_while_a_download_runs(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.start()
    bench.want(model.entry, bandwidth_limit=200_000)  # half a minute, so that progress is reported during the download

    def reported() -> list[EntryProgress]:
        return [entry for report in list(bench.controller.progress) for entry in report.entries]

    bench.wait_for(lambda: any(0 < e.done < e.total for e in reported()), "progress to be reported")
    bench.want(model.entry)
    bench.wait_phase(model, "Ready")
    begun = [entry for entry in reported() if entry.total]  # the first report may precede the list of missing files
    assert {(e.id, e.revision, e.total) for e in begun} == {(*model.entry.key, model.manifest.size_bytes)}
    assert all(e.done == 0 for e in reported() if not e.total)


class TestCredentials:
    def test_valid_credentials_of_any_claim_are_enough(self, bench: Bench) -> None:
        model = self.private(bench)
        wrong = ClaimCredentials("one", {"HF_TOKEN": "wrong"})
        right = ClaimCredentials("two", {"HF_TOKEN": "right"})
        bench.controller.grants[model.entry.key] = (wrong, right)
        bench.start()
        bench.want(model.entry)
        bench.wait_phase(model, "Ready")
        assert "right" not in (bench.state / "agent.log").read_text()

    def test_wrong_credentials_fail_the_entry_until_a_claim_changes(self, bench: Bench) -> None:
        model = self.private(bench)
        bench.controller.grants[model.entry.key] = (ClaimCredentials("one", {"HF_TOKEN": "wrong"}),)
        bench.start()
        bench.want(model.entry)
        bench.wait_phase(model, "Failed", "AuthDenied")

        bench.controller.grants[model.entry.key] = (ClaimCredentials("one", {"HF_TOKEN": "right"}),)
        bench.want(
            msgspec.structs.replace(
                model.entry, claims=[Claim(kind="ClusterModelCache", name="c", uid="c", secret="another")]
            )
        )
        bench.wait_phase(model, "Ready")

    @staticmethod
    def private(bench: Bench) -> Model:
        model = bench.add_model("llama", FILES)
        bench.hub.push(
            f"{bench.node}/llama", bench.state / "pushed" / "llama", access=RepositoryAccess(frozenset({"right"}))
        )
        return model


def test_a_model_of_a_rate_limiting_source_becomes_ready(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.hub.faults.add(Refuse(429, 1), "*/resolve/*", times=2)
    bench.start()
    bench.want(model.entry)
    bench.wait_phase(model, "Ready")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_and_sigint_end_the_agent_with_exit_code_zero(bench: Bench, number: signal.Signals) -> None:
    bench.want()
    agent = bench.start()
    os.kill(agent.pid, number)
    bench.wait_for(lambda: agent.exit_code is not None, "the end of the agent")
    assert agent.exit_code == 0
