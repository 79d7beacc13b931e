"""URIs of claims on the command line: they can be read only where the claim is mounted."""

import io
from pathlib import Path

import pytest

from agent.cli.fetch import run_fetch
from controller.cli.inspect import run_inspect

URIS = ["pvc://team/models/llama", "pvc://team:models/llama", "pvc://models/llama"]  # a BaseModel's names no namespace


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize("command", ["fetch", "inspect"])
def test_a_claim_uri_is_refused_with_advice_to_use_a_pod_that_mounts_it(tmp_path: Path, uri: str, command: str) -> None:
    stdout, stderr = io.StringIO(), io.StringIO()
    if command == "fetch":
        code = run_fetch(uri, tmp_path / "dir", {}, stdout, stderr)
    else:
        code = run_inspect(uri, {}, stdout, stderr)
    assert code == 1
    assert stderr.getvalue().startswith(f"InvalidURI: {uri}: ")
    assert "in a pod that mounts it" in stderr.getvalue()
    assert "larder inspect PATH" in stderr.getvalue()
    assert stderr.getvalue().count("\n") == 1
    assert list(tmp_path.iterdir()) == []
