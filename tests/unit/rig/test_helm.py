import os
from pathlib import Path

import pytest

from rig.binaries import HELM, cached
from rig.errors import HelmFailed, MissingBinaries
from rig.helm import Helm, find_helm


def test_helm_is_found_in_the_cache_or_at_the_configured_path(tmp_path: Path) -> None:
    place = cached(HELM, tmp_path)
    place.parent.mkdir(parents=True)
    place.touch(mode=0o755)
    assert find_helm({"LARDER_CACHE": str(tmp_path)}) == place
    assert find_helm({"LARDER_CACHE": str(tmp_path), "LARDER_HELM": "/opt/helm"}) == Path("/opt/helm")


def test_a_missing_helm_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    with pytest.raises(MissingBinaries, match=r"^helm \S+ not found in .*run: make setup && .*python -m rig setup"):
        find_helm({"LARDER_CACHE": str(tmp_path)})


def _program(tmp_path: Path, script: str) -> Helm:
    program = tmp_path / "helm"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Helm(program, tmp_path / "home")


def test_a_failure_includes_the_message_of_helm(tmp_path: Path) -> None:
    helm = _program(tmp_path, "echo Error: wrong >&2; exit 3")
    with pytest.raises(HelmFailed, match="helm lint x failed with exit code 3:\nError: wrong"):
        helm.run("lint", "x")


def test_helm_does_not_see_the_users_kubeconfig_or_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/home/me/.kube/config")
    monkeypatch.setenv("HELM_NAMESPACE", "mine")
    printed = _program(tmp_path, "env").run()
    assert f"KUBECONFIG={os.devnull}\n" in printed
    assert "HELM_NAMESPACE" not in printed
    assert f"HELM_CACHE_HOME={tmp_path}/home/cache\n" in printed
