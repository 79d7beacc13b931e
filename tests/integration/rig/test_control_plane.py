"""The control plane of the rig: its programs, users, and an API server that crashes."""

import subprocess

import pytest

from rig.binaries import KUBERNETES_VERSION, Binaries
from rig.control_plane import ControlPlane
from rig.errors import CallRefused


def test_kubectl_works_with_the_control_plane(control_plane: ControlPlane, binaries: Binaries) -> None:
    argv = [str(binaries.kubectl), "--kubeconfig", str(control_plane.kubeconfig), "version"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)  # noqa: S603 - our own kubectl
    assert f"Server Version: v{KUBERNETES_VERSION}" in done.stdout
    assert done.stderr == ""


def test_users_have_only_the_rights_that_rbac_grants(control_plane: ControlPlane) -> None:
    stranger = control_plane.api_for("stranger")
    with pytest.raises(CallRefused, match='User "stranger" cannot list resource "nodes"'):
        stranger.get("/api/v1/nodes")
    stranger.close()
    member = control_plane.api_for("member", ["system:masters"])
    assert "items" in member.get("/api/v1/nodes")
    member.close()


def test_admission_policies_and_webhooks_are_served(control_plane: ControlPlane) -> None:
    resources = control_plane.api.get("/apis/admissionregistration.k8s.io/v1")["resources"]
    assert {"validatingadmissionpolicies", "mutatingwebhookconfigurations"} <= {one["name"] for one in resources}


def test_the_api_server_keeps_its_objects_after_a_crash(control_plane: ControlPlane) -> None:
    api = control_plane.api
    api.create("/api/v1/namespaces", {"metadata": {"name": "rig-survives"}})
    before = control_plane.pids()["kube-apiserver"]
    control_plane.stop_apiserver()
    assert not api.answers("/readyz")
    control_plane.resume_apiserver()
    assert control_plane.pids()["kube-apiserver"] != before
    assert api.get("/api/v1/namespaces/rig-survives")["metadata"]["name"] == "rig-survives"
