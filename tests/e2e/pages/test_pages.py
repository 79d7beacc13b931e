"""The commands of the pages for newcomers work in order on a fresh cluster and end with pods that serve models."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from rig.binaries import cache_dir
from rig.karpenter.controller import Karpenter
from rig.node import images
from rig.node.cluster import NodeCluster
from rig.node.containerd import SANDBOX_IMAGE
from rig.node.installation import Installation
from rig.node.local_path import LocalPath
from rig.node.prepare import tools
from rig.node.rented_machines import RentedMachines
from rig.node.sources import sources_on
from tests.e2e.real_nodes import require_real_nodes
from tests.readers.console import Shell

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "install.md"
TUTORIALS = sorted(page for page in (ROOT / "docs" / "tutorials").glob("*.md") if page.name != "README.md")
REPOSITORY = "hf-internal-testing/tiny-random-gpt2"
SERVED = ("HuggingFaceTB/SmolLM2-135M", "HuggingFaceTB/SmolLM2-360M")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NEEDS_KARPENTER = "autoscaled-pool"
_NODE_CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}  # of the rig's provider
_NOT_HERE = "docker "  # buildah builds the images from the same Dockerfiles
_COMMAND_S = 420.0
_ANSWER_S = 180.0  # in this time, a machine of a pool may boot or be drained


@dataclass
class Reader:
    """Runs the commands of a page; `said` has the output of each block."""

    site: Installation
    folder: Path
    environ: dict[str, str]
    output: dict[str, str] = field(default_factory=dict)

    def type_all(self) -> None:
        """Type every block of commands, and save every file."""
        for language, text in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            if language == "yaml":
                self.save_values(text)
            elif not text.startswith(_NOT_HERE):
                self.output[text] = self.type(text)

    def save_values(self, text: str) -> None:
        """Save the page's values with the sources of images and models replaced."""
        values = merged(yaml.safe_load(text), self.site.values())
        (self.folder / "values.yaml").write_text(yaml.safe_dump(values))

    def type(self, commands: str) -> str:
        """Run a block of commands, each of which must succeed, and return what they printed."""
        argv = ["/bin/bash", "-euo", "pipefail", "-c", commands]
        ran = subprocess.run(  # noqa: S603 - the page's own commands
            argv, cwd=self.folder, env=self.environ, capture_output=True, text=True, check=False, timeout=_COMMAND_S
        )
        assert ran.returncode == 0, f"{commands}\n{ran.stdout}{ran.stderr}\n{self.site.explain()}"
        return ran.stdout

    def said_by(self, word: str) -> str:
        """Return what the block with this word printed."""
        (found,) = [output for text, output in self.output.items() if word in text]
        return found


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return values with changes, at every depth."""
    deeper = {k: merged(values[k], v) for k, v in changes.items() if isinstance(v, dict) and k in values}
    return {**values, **changes, **deeper}


@dataclass(frozen=True)
class TutorialShell(Shell):
    """A shell that keeps commands ending in `&` running until `running` is closed."""

    running: ExitStack = field(default_factory=ExitStack)

    def run(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of a page as its reader would."""
        if not command.endswith("&"):
            return super().run(command)
        argv = ["/bin/bash", "-c", f"exec {command.removesuffix('&')}"]
        process = subprocess.Popen(argv, cwd=self.folder, env=self.environ, stdout=subprocess.DEVNULL)  # noqa: S603 - as above
        self.running.callback(process.wait)
        self.running.callback(process.terminate)
        return subprocess.CompletedProcess(argv, 0, "", "")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A reader who has followed Install, with a checkout, pushed images and a fresh cluster of one node."""
    require_real_nodes()
    cache, folder = cache_dir(os.environ), tmp_path_factory.mktemp("reader")
    archives = images.build_all(cache, print, with_model_server=True)
    with ExitStack() as stack:
        cluster = stack.enter_context(NodeCluster(tools(os.environ), folder / "cluster", cache))
        hub, s3 = stack.enter_context(sources_on(cluster, folder / "cluster"))
        for archive in archives:
            cluster.load_image(archive)
        cluster.add_node("fresh")
        site = Installation(cluster=cluster, hub=hub, s3=s3, folder=folder / "models")
        for repository in (REPOSITORY, *SERVED):
            site.push(repo=repository)
        stack.enter_context(LocalPath(site.api, cluster.kubeconfig, folder / "local-path"))
        reader = Reader(site, _checkout(folder / "checkout"), _environ(folder, cluster))
        reader.type_all()
        yield reader


def _checkout(folder: Path) -> Path:
    """Return a checkout whose examples use the image and the nodes of this cluster."""
    folder.mkdir()
    (folder / "charts").symlink_to(ROOT / "charts")
    shutil.copytree(ROOT / "examples", folder / "examples")
    pod = folder / "examples" / "first-model" / "pod.yaml"
    text = pod.read_text()
    assert text.count("busybox:1.37") == 1
    pod.write_text(text.replace("busybox:1.37", SANDBOX_IMAGE))
    pool = folder / "examples" / "autoscaling" / "nodepool.yaml"
    declared = yaml.safe_load(pool.read_text())
    declared["spec"]["template"]["spec"]["nodeClassRef"] = _NODE_CLASS
    pool.write_text(yaml.safe_dump(declared))
    return folder


def _environ(home: Path, cluster: NodeCluster) -> dict[str, str]:
    """Return the environment of a shell with kubectl, helm and larder, configured for this cluster."""
    folder = home / "bin"
    folder.mkdir()
    programs = {"kubectl": cluster.tools.plane.kubectl, "helm": cluster.tools.helm}
    for name, program in {**programs, "larder": Path(sys.executable).parent / "larder"}.items():
        (folder / name).symlink_to(program)
    return {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(home), "KUBECONFIG": str(cluster.kubeconfig)}


def test_the_installation_page_ends_with_a_pod_that_reads_its_model(reader: Reader) -> None:
    log = reader.said_by("logs reader")
    assert '"model_type"' in log
    assert "model.safetensors" in log
    assert "model-cache-ready-tiny-gpt2" in reader.said_by("get pod reader")
    assert "tiny-gpt2" in reader.said_by("get clusterbasemodel")
    assert "fresh" in reader.said_by("get modelnodes")
    assert "Phase:          Succeeded" in reader.said_by("helm test")


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_every_command_of_a_tutorial_prints_the_output_shown(reader: Reader, page: Path, tmp_path: Path) -> None:
    shell = TutorialShell(reader.environ, reader.folder)
    with required_by(page, reader.site.cluster, tmp_path), shell.running:
        assert shell.follow(page, _ANSWER_S) > 7


@contextmanager
def required_by(page: Path, cluster: NodeCluster, state: Path) -> Iterator[None]:
    """Install the prerequisites of a page: Karpenter, and machines for its Nodes."""
    if page.stem != _NEEDS_KARPENTER:
        yield
        return
    with Karpenter(cluster.plane, state / "karpenter"), RentedMachines(cluster):
        declared = {"apiVersion": f"{_NODE_CLASS['group']}/v1alpha1", "kind": _NODE_CLASS["kind"]}
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(declared | {"metadata": {"name": _NODE_CLASS["name"]}}))
        yield
