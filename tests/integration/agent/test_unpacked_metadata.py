"""Metadata of unpacked archives: read once, by a separate process that may crash or hang."""

import json
import os
import signal
from pathlib import Path

import msgspec
import pytest

from shared.api.unpacked_metadata import UnpackedMetadata
from tests.builders.archives import tar_gz, zipped
from tests.builders.model_files import safetensors
from tests.integration.agent.node_under_test import Bench, Model

CONFIG = json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "max_position_embeddings": 4096})
GRACE_S = 20.0  # the grace period of agents in the chart
FILES = {"m/config.json": CONFIG.encode(), "m/model.safetensors": safetensors({"w": ("BF16", (15_000, 64))})}
# Runs in every Python that finds it: the child writes its process id and then hangs.
HANGS = """
import os, pathlib, sys, time
if "agent.metadata.child" in sys.orig_argv:
    written = pathlib.Path(os.path.dirname(__file__), "child")
    written.with_suffix(".new").write_text(str(os.getpid()))
    written.with_suffix(".new").rename(written)
    time.sleep(600)
"""


def add(bench: Bench, identity: str, name: str, body: bytes) -> Model:
    return bench.add_model(identity, {name: body})


def reported(bench: Bench, model: Model) -> UnpackedMetadata | None:
    status = bench.status(model.entry)
    return status.metadata if status else None


def wait_reported(bench: Bench, model: Model) -> UnpackedMetadata:
    bench.wait_for(lambda: reported(bench, model) is not None, f"{model.entry.id} to be read")
    found = reported(bench, model)
    assert found is not None
    return found


def test_metadata_of_an_archive_is_read_once_and_kept_by_the_next_agent(bench: Bench) -> None:
    archive, plain = add(bench, "llama", "m.tar.gz", tar_gz(FILES)), bench.add_model("plain", FILES)
    bench.want(archive.entry, plain.entry)
    agent = bench.start()
    bench.wait_phase(plain, "Ready")
    found = wait_reported(bench, archive)
    assert found.values is not None
    assert (found.values.model_type, found.values.context_length) == ("llama", 4096)
    assert (found.values.parameters, found.values.parameters_from) == (960_000, "headers")
    assert found.values.size_bytes == sum(map(len, FILES.values())), "the agent's mark is not part of the model"
    assert len(msgspec.json.encode(found)) <= 1024

    agent.kill()
    bench.start()
    bench.want(archive.entry, plain.entry, storage_limit=2**40)
    bench.wait_for(lambda: bench.model_node().status.limit == 2**40, "the next agent to report")
    assert reported(bench, archive) == found
    assert reported(bench, plain) is None, "the controller reads it from its source"
    assert bench.count("metadata_read") == 1


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (b'{"a": "' + rb"\"" * 80_000, "MetadataMalformed"),
        (b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "MetadataMalformed"),
        (b" " * 64 * 2**20, "MetadataOversized"),
        (None, "MetadataMissing"),
    ],
    ids=["quotes", "deep", "large", "missing"],
)
def test_hostile_files_cost_a_model_only_its_metadata(bench: Bench, config: bytes | None, reason: str) -> None:
    model = add(bench, "llama", "m.zip", zipped({"config.json": config} if config else {"notes.txt": b"x"}))
    bench.want(model.entry)
    bench.start()
    found = wait_reported(bench, model)
    assert (found.reason, found.values) == (reason, None)
    bench.wait_phase(model, "Ready")
    assert bench.count("metadata_read") == 1


def test_a_hanging_reader_delays_no_model_and_is_not_repeated_by_the_next_agent(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HANGS)
    bench.environ = {"PYTHONPATH": str(tmp_path)}
    model = add(bench, "llama", "m.tar.gz", tar_gz(FILES))
    bench.want(model.entry)
    agent = bench.start()
    bench.wait_phase(model, "Ready")
    child = tmp_path / "child"
    bench.wait_for(child.exists, "the reader to hang")
    other = bench.add_model("other", {"weights.bin": b"w" * 1000})
    bench.want(model.entry, other.entry)
    bench.wait_phase(other, "Ready")
    assert bench.is_ready()

    os.kill(int(child.read_text()), signal.SIGKILL)
    found = wait_reported(bench, model)
    assert (found.reason, found.attempts) == ("MetadataInterrupted", 1)
    assert "killed from outside" in found.message

    agent.kill()
    bench.environ = {}
    bench.start()
    bench.want(model.entry, storage_limit=2**40)
    bench.wait_for(lambda: bench.model_node().status.limit == 2**40, "the next agent to report")
    assert reported(bench, model) == found
    assert bench.count("metadata_read") == 1


def test_a_stopping_agent_kills_a_hanging_reader(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HANGS)
    bench.environ = {"PYTHONPATH": str(tmp_path)}
    model = add(bench, "llama", "m.tar.gz", tar_gz(FILES))
    bench.want(model.entry)
    agent = bench.start()
    child = tmp_path / "child"
    bench.wait_for(child.exists, "the reader to hang")
    agent.stop(GRACE_S)
    stat = Path(f"/proc/{child.read_text()}/stat")
    bench.wait_for(lambda: not stat.exists(), "the reader to be gone")
