"""The options that all commands about a cluster have, and their exit codes."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from controller.cli.cluster import add_cluster_options, add_namespace_options, run_on_cluster
from shared.kube.errors import NotFound, Refused
from shared.kube.transport import Kube


def parsed(tmp_path: Path, *arguments: str) -> argparse.Namespace:
    contexts = [
        {"name": "prod", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
        {"name": "bare", "context": {"cluster": "c", "user": "u"}},
    ]
    path = tmp_path / "config"
    path.write_text(
        json.dumps(
            {
                "current-context": "prod",
                "contexts": contexts,
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    parser = argparse.ArgumentParser()
    add_cluster_options(parser)
    add_namespace_options(parser, all_namespaces=True)
    return parser.parse_args([f"--kubeconfig={path}", *arguments])


@pytest.mark.parametrize(
    ("arguments", "namespace"),
    [((), "team"), (("--context=bare",), "default"), (("-n", "mine"), "mine"), (("--context=bare", "-nmine"), "mine")],
)
def test_the_namespace_option_overrides_that_of_the_context(
    tmp_path: Path, arguments: tuple[str, ...], namespace: str
) -> None:
    seen = []

    async def act(kube: Kube) -> int:
        seen.append(kube.namespace)
        return 7

    assert run_on_cluster(parsed(tmp_path, *arguments), act) == 7
    assert seen == [namespace]


def test_the_options_for_one_and_for_all_namespaces_are_mutually_exclusive(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        parsed(tmp_path, "-A", "-n", "mine")


def test_a_namespace_must_not_be_a_path(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        parsed(tmp_path, "-n", "../x")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (NotFound("no such thing;\ngo"), "NotFound: no such thing; go"),
        (Refused("403 Forbidden: no", 403), "Refused: 403 Forbidden: no; ask for a role that allows it"),
        (Refused("401 Unauthorized: no", 401), "Refused: 401 Unauthorized: no; the credentials are invalid"),
        (Refused("422 Invalid: no", 422), "Refused: 422 Invalid: no\n"),
    ],
)
def test_a_failure_is_one_line_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception, line: str
) -> None:
    async def act(_: Kube) -> int:
        raise error

    assert run_on_cluster(parsed(tmp_path), act) == 1
    output = capsys.readouterr()
    assert output.err.startswith(line)
    assert (output.out, output.err.count("\n")) == ("", 1)


def test_an_unreachable_cluster_is_reported_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def act(kube: Kube) -> int:
        await kube.request("GET", "/x")
        return 0

    assert run_on_cluster(parsed(tmp_path), act) == 1
    assert capsys.readouterr().err.startswith("Unreachable: the API server at http://127.0.0.1:1 does not answer")


@pytest.mark.parametrize(
    ("is_full", "line"), [(True, "StoreFailure: the output cannot be written: No space left on device; "), (False, "")]
)
def test_output_that_cannot_be_written_is_reported_in_one_line_or_not_at_all(
    tmp_path: Path, *, is_full: bool, line: str
) -> None:
    """The output is smaller than Python's buffer, so nothing is written before the command ends."""
    kubeconfig = parsed(tmp_path).kubeconfig
    program = f"""
import argparse, sys
from controller.cli.cluster import run_on_cluster

async def act(kube):
    print("little")
    return 0

sys.exit(run_on_cluster(argparse.Namespace(kubeconfig={str(kubeconfig)!r}, context=None), act))
"""
    reader, writer = os.pipe()
    os.close(reader)
    with Path("/dev/full").open("w") as full, os.fdopen(writer, "w") as closed:
        environ = {**os.environ, "PYTHONUNBUFFERED": ""}
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", program], stdout=full if is_full else closed, stderr=subprocess.PIPE, text=True,
            env=environ, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == bool(line)
