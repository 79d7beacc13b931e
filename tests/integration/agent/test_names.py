"""File names that people or file systems confuse, downloaded from a hub to a node."""

from tests.builders.file_names import FILES
from tests.integration.agent.node_under_test import Bench


def test_files_with_unusual_names_keep_their_own_bytes(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.want(model.entry)
    bench.start()
    bench.wait_phase(model, "Ready")
    assert {f.path for f in model.manifest.files} == set(FILES)
    assert bench.is_complete(model)
