"""A Model from a model registry, with the plugin of the documentation: from admission to the files and the pod."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rig.binaries import Binaries
from rig.larder.site import Site
from rig.pods import plain_pod
from rig.scripted_http import ScriptedRequest, reply, scripted
from shared.download_report import decode_report
from tests.builders.distributions import install_example
from tests.integration.system.download_pods import CLASS, CLASSES, JOBS, PODS, report, volume_for
from tests.integration.system.sites import opened

API = "/api/model_registry/v1alpha3"


@dataclass
class ModelRegistry:
    """A registry with one model, `llama`, whose version 3.1 is wherever `artifact` says."""

    artifact: str = ""

    def answer(self, asked: ScriptedRequest) -> bytes:
        """Answer one request."""
        known = {
            f"{API}/registered_model?name=llama": {"id": "1"},
            f"{API}/model_version?name=3.1&parentResourceId=1": {"id": "7"},
            f"{API}/model_versions/7/artifacts?": {"items": [{"uri": self.artifact}]},
        }
        found = known.get(asked.target)
        return reply(200 if found else 404, json.dumps(found or {"message": "not found"}).encode())


@dataclass(frozen=True)
class PluginSite:
    """A cluster whose programs have the plugin."""

    larder: Site
    registry: ModelRegistry
    environ: dict[str, str]


@pytest.fixture(scope="module")
def plugin(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginSite]:
    folder, registry = tmp_path_factory.mktemp("site-packages"), ModelRegistry()
    install_example("model-registry", folder)
    with scripted(registry.answer) as server:
        environ = {"PYTHONPATH": str(folder), "MODEL_REGISTRY_URL": server.url}
        settings = environ | {"LARDER_ALLOWED_SOURCES": "hf://,model-registry://"}
        with opened(binaries, tmp_path_factory.mktemp("plugins"), settings, {}, replicas=1) as larder:
            larder.api.ensure(CLASSES, {"metadata": {"name": CLASS}, "provisioner": "kubernetes.io/no-provisioner"})
            yield PluginSite(larder, registry, environ)


def test_a_model_of_the_registry_is_downloaded_and_injected(plugin: PluginSite, tmp_path: Path) -> None:
    site, files = plugin.larder, {"config.json": b"{}", "model.safetensors": b"weights"}
    plugin.registry.artifact = site.push(files=files)
    source = {"plugin": {"uri": "model-registry://llama/3.1"}}
    model = site.create(
        "Model", site.name("mdl"), {"source": source, "storage": {"storageClass": CLASS, "size": "1Gi"}}
    )
    path = f"{JOBS}/model-download-{model}"
    site.until(lambda: site.api.answers(path), "the Job")
    job = site.api.get(path)

    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == "model-registry://llama/3.1"
    arguments = [a.replace("--to=/models", f"--to={tmp_path / 'claim'}") for a in container["args"]]
    (tmp_path / "claim").mkdir()
    variables = {v["name"]: v["value"] for v in container["env"] if v["name"] != "HOME"}
    argv = [
        sys.executable,
        *container["command"][1:],
        f"--report={tmp_path / 'report'}",
        "--progress-port=0",
        *arguments,
    ]
    subprocess.run(argv, env={"PATH": os.environ["PATH"], **variables, **plugin.environ}, check=True)  # noqa: S603 - ours
    assert {name: (tmp_path / "claim" / name).read_bytes() for name in files} == files

    volume_for(site, f"model-{model}")
    report(site, job, "Succeeded", decode_report((tmp_path / "report").read_text()), "Pending")  # without nodes
    site.until(lambda: site.status("Model", model).get("phase") == "Ready", f"{model} to be Ready")
    pod = site.pod(plain_pod(site.name("web"), {"models.example.com/inject": model}))
    variables = {v["name"]: v["value"] for v in pod["spec"]["containers"][0]["env"]}
    prefix = f"MODEL_{model.upper().replace('-', '_')}"
    assert variables[f"{prefix}_SOURCE_TYPE"] == "model-registry"
    assert variables[f"{prefix}_URI"] == "model-registry://llama/3.1"
    site.api.delete(f"{PODS}/{pod['metadata']['name']}", grace_s=0)
