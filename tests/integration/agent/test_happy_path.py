import msgspec

from rig import plain_http
from shared.names import ready_label, snapshot_label
from tests.integration.agent.node_under_test import Bench

FILES = {"config.json": b'{"a": 1}', "weights/model.safetensors": b"w" * 300_000}


def test_a_model_is_fetched_verified_labelled_and_reported(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.start()
    bench.want(model.entry, storage_limit=10**9)

    bench.wait_phase(model, "Ready")

    assert bench.is_complete(model)
    assert bench.labels() == {ready_label("llama"), snapshot_label(*model.entry.key)}
    status = bench.model_node().status
    assert status.node_uid == bench.node_uid()
    assert status.store_root == str(bench.root)
    assert status.limit == 10**9
    assert status.protocol == 1
    assert status.store_id
    entry = bench.status(model.entry)
    assert entry is not None
    assert (entry.observed, entry.reason, entry.verified) == ("Present", "", "digest")
    assert entry.since


def test_an_entry_without_a_grant_waits_and_requests_no_credentials(bench: Bench) -> None:
    model = bench.add_model("llama", FILES, granted=False)
    bench.start()
    bench.want(model.entry)
    bench.wait_phase(model, "Waiting")
    assert "/v1/credentials" not in bench.controller.asked

    bench.want(msgspec.structs.replace(model.entry, granted=True))
    bench.wait_phase(model, "Ready")


def test_the_http_endpoints_report_health_models_and_metrics(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.want(model.entry)
    bench.start()
    bench.wait_phase(model, "Ready")
    assert bench.answers("/healthz") == 200
    shown = plain_http.get(f"{bench.url}/v1/models").json()
    assert [(m["id"], m["phase"]) for m in shown["models"]] == [("llama", "Ready")]
    assert shown["process"]["memory_bytes"] > 0
    assert shown["process"]["open_files"] > 0
    metrics = plain_http.get(f"{bench.url}/metrics").text
    assert 'larder_models{phase="Ready"} 1.0' in metrics
    assert "llama" not in metrics
