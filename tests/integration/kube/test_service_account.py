"""A pod's service account against the real API server: no kubeconfig, and a token that kubelet replaces."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rig.agents import ensure_service_account
from rig.control_plane import ControlPlane
from shared.kube.credentials import TokenFile
from shared.kube.errors import Refused
from shared.kube.transport import connect

ACCOUNT = "rotating"
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture
def make_token(control_plane: ControlPlane) -> Callable[[], str]:
    ensure_service_account(control_plane.api, ACCOUNT, "default")
    path = f"/api/v1/namespaces/default/serviceaccounts/{ACCOUNT}/token"
    return lambda: str(control_plane.api.create(path, {"spec": {}})["status"]["token"])


async def test_a_replaced_token_is_used_for_later_requests(
    control_plane: ControlPlane, make_token: Callable[[], str], tmp_path: Path
) -> None:
    host, port = control_plane.server
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}
    (tmp_path / "ca.crt").write_bytes(control_plane.ca_pem)
    (tmp_path / "token").write_text(make_token())
    async with connect(None, tmp_path, environ=environ) as kube:
        assert isinstance(kube.access.authorization, TokenFile)
        kube.access.authorization.fresh_s = 0
        assert f"system:serviceaccount:default:{ACCOUNT}".encode() in await kube.request("POST", REVIEW, body={})
        (tmp_path / "token").write_text("of-somebody-else")
        with pytest.raises(Refused) as refused:
            await kube.request("POST", REVIEW, body={})
        assert refused.value.code == 401
        (tmp_path / "token").write_text(make_token())
        assert ACCOUNT.encode() in await kube.request("POST", REVIEW, body={})
