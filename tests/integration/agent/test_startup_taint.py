import msgspec

from tests.integration.agent.node_under_test import Bench

FILES = {"config.json": b'{"a": 1}', "weights/model.safetensors": b"w" * 300_000}
STARTUP = {"key": "larder.dev/agent-not-ready", "effect": "NoSchedule"}
GPU = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}


def _taint(bench: Bench) -> None:
    bench.api.patch(f"/api/v1/nodes/{bench.node}", {"spec": {"taints": [STARTUP, GPU]}})


def _taints(bench: Bench) -> list[str]:
    """The keys of the taints on the Node, without those of Kubernetes."""
    taints = bench.api.get(f"/api/v1/nodes/{bench.node}")["spec"].get("taints", [])
    return [t["key"] for t in taints if not t["key"].startswith("node.kubernetes.io/")]


def test_only_the_startup_taint_is_removed_once_all_important_models_are_ready(bench: Bench) -> None:
    _taint(bench)
    first, second = bench.add_model("llama", FILES), bench.add_model("qwen", FILES, granted=False)
    unimportant = bench.add_model("tiny", FILES, granted=False, priority=-1)
    bench.want(first.entry, second.entry, unimportant.entry)
    bench.start()
    bench.wait_phase(first, "Ready")
    bench.wait_phase(second, "Waiting")
    assert _taints(bench) == [STARTUP["key"], GPU["key"]]

    bench.want(first.entry, msgspec.structs.replace(second.entry, granted=True), unimportant.entry)
    bench.wait_for(lambda: _taints(bench) == [GPU["key"]], "the startup taint to be gone")
    assert bench.has_labels(second)
    bench.wait_for(lambda: bench.count("startup_taint_removed") > 0, "the removal to be logged")
    assert [e.get("missing") for e in bench.events() if e["event"] == "startup_taint_removed"] == [None]

    _taint(bench)  # as Karpenter does when it registers a node late
    bench.wait_for(lambda: _taints(bench) == [GPU["key"]], "the startup taint to go again")


def test_the_startup_taint_is_removed_although_a_model_does_not_fit(bench: Bench) -> None:
    _taint(bench)
    model = bench.add_model("llama", FILES)
    bench.want(model.entry, storage_limit=1000)
    patient = bench.start()
    bench.wait_phase(model, "Failed", "InsufficientStorage")
    assert _taints(bench) == [STARTUP["key"], GPU["key"]]
    patient.kill()
    bench.start("--startup-taint-failure-seconds", "3")
    bench.wait_for(lambda: _taints(bench) == [GPU["key"]], "the startup taint to be gone")
    bench.wait_for(lambda: bench.count("startup_taint_removed") > 0, "the removal to be logged")
    (removed,) = [e for e in bench.events() if e["event"] == "startup_taint_removed"]
    assert removed["missing"] == ["llama (InsufficientStorage)"]


def test_the_startup_taint_is_removed_from_a_node_without_models(bench: Bench) -> None:
    _taint(bench)
    patient = bench.start()
    assert _taints(bench) == [STARTUP["key"], GPU["key"]]
    patient.kill()
    bench.start("--startup-taint-failure-seconds", "3")
    bench.wait_for(lambda: _taints(bench) == [GPU["key"]], "the startup taint to be gone")
