import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from shared.kube.access import find_access
from shared.kube.credentials import Access, TokenFile
from shared.kube.errors import NoCluster
from shared.kube.transport import connect
from tests.builders.api_server import kubeconfig

NOWHERE = Path("/nonexistent")


def make_fresh(access: Access) -> None:
    """Make the token expire at once, instead of after a minute."""
    assert isinstance(access.authorization, TokenFile)
    access.authorization.fresh_s = 0


@pytest.fixture
def service_account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("first\n")
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    return tmp_path


@pytest.mark.parametrize(
    ("host", "url"), [("10.0.0.1", "https://10.0.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")]
)
async def test_in_a_pod_the_service_account_is_used(service_account: Path, host: str, url: str) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "6443"}
    async with connect(None, service_account, environ=environ) as kube:
        assert kube.access.server == url
        assert await kube.access.authorization() == "Bearer first"


async def test_a_rotated_service_account_token_is_read_again(service_account: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    access = await find_access(None, service_account, environ)
    assert await access.authorization() == "Bearer first"
    (service_account / "token").write_text("second")
    assert await access.authorization() == "Bearer first"
    make_fresh(access)
    assert await access.authorization() == "Bearer second"


async def test_a_token_is_read_again_after_a_minute_and_survives_its_files_absence(tmp_path: Path) -> None:
    now = 0.0
    path = tmp_path / "token"
    path.write_text("first")
    token = TokenFile(path, clock=lambda: now)
    seen = []
    for at, content in [(0, "first"), (59, "second"), (60, "second"), (120, None), (180, ""), (240, "third")]:
        now = at
        if content is None:
            path.unlink()
        else:
            path.write_text(content)
        seen.append((await token()).removeprefix("Bearer "))
    assert seen == ["first", "first", "second", "second", "second", "third"]


async def test_a_given_kubeconfig_takes_precedence_over_the_service_account(service_account: Path) -> None:
    path = kubeconfig(service_account / "kubeconfig", user={"token": "mine"})
    access = await find_access(path, service_account, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert await access.authorization() == "Bearer mine"


async def test_a_kubeconfigs_token_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    access = await find_access(kubeconfig(tmp_path / "config", user={"tokenFile": "token"}), NOWHERE, {})
    assert await access.authorization() == "Bearer first"
    (tmp_path / "token").write_text("second")
    make_fresh(access)
    assert await access.authorization() == "Bearer second"


@pytest.mark.parametrize(("lives_s", "runs"), [(3600, 1), (-3600, 3)])
async def test_an_exec_plugin_is_asked_again_once_its_token_has_expired(
    tmp_path: Path, lives_s: int, runs: int
) -> None:
    expires = (datetime.now(UTC) + timedelta(seconds=lives_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    plugin = tmp_path / "plugin.py"
    plugin.write_text(f"""
import json, pathlib
count = pathlib.Path({str(tmp_path / "count")!r})
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
    "status": {{"token": f"t{{number}}", "expirationTimestamp": {expires!r}}}}}))
""")
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["-I", str(plugin)],
            "interactiveMode": "Never",
        }
    }
    access = await find_access(kubeconfig(tmp_path / "config", user=user), NOWHERE, {})
    headers = [await access.authorization() for _ in range(2)]
    assert headers[-1] == f"Bearer t{runs}"


async def test_a_user_with_a_password_logs_in_with_it(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", user={"username": "me", "password": "secret"})
    assert await (await find_access(path, NOWHERE, {})).authorization() == "Basic bWU6c2VjcmV0"


@pytest.mark.parametrize("content", [None, "", "]{", "[]", '{"contexts": []}', '{"current-context": "gone"}'])
async def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(NoCluster, match=str(path)):
        async with connect(path, NOWHERE, environ={}):
            pass


async def test_a_ca_that_is_invalid_is_named(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("not a certificate")
    with pytest.raises(NoCluster, match=r"ca\.crt"):
        async with connect(None, tmp_path, environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}):
            pass


async def test_a_context_selects_its_cluster_user_and_namespace(tmp_path: Path) -> None:
    path = tmp_path / "config"
    contexts = {"a": ("https://a:1", "ta", "team-a"), "b": ("https://b:2", "tb", "")}
    path.write_text(
        json.dumps(
            {
                "current-context": "a",
                "contexts": [
                    {"name": n, "context": {"cluster": n, "user": n, **({"namespace": space} if space else {})}}
                    for n, (_, _, space) in contexts.items()
                ],
                "clusters": [{"name": n, "cluster": {"server": server}} for n, (server, _, _) in contexts.items()],
                "users": [{"name": n, "user": {"token": token}} for n, (_, token, _) in contexts.items()],
            }
        )
    )
    for context, server, token, namespace in (
        (None, "https://a:1", "ta", "team-a"),
        ("b", "https://b:2", "tb", "default"),
        ("a", "https://a:1", "ta", "team-a"),
    ):
        access = await find_access(path, NOWHERE, {}, context)
        assert (access.server, access.namespace) == (server, namespace)
        assert await access.authorization() == f"Bearer {token}"
    with pytest.raises(NoCluster, match=r"cannot use context c of the kubeconfig .*kubectl config get-contexts"):
        await find_access(path, NOWHERE, {}, "c")


async def test_a_pod_knows_its_own_namespace(service_account: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert (await find_access(None, service_account, environ)).namespace == "default"
    (service_account / "namespace").write_text("team\n")
    assert (await find_access(None, service_account, environ)).namespace == "team"


async def test_a_credential_plugin_that_returns_nothing_is_named(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false", "interactiveMode": "Never"}
    with pytest.raises(NoCluster, match=r"credential plugin /bin/false .* returned no credentials"):
        await find_access(kubeconfig(tmp_path / "config", user={"exec": plugin}), NOWHERE, {})


async def test_a_missing_kubeconfig_is_reported_with_the_paths_that_were_tried(tmp_path: Path) -> None:
    paths = f"{tmp_path / 'a'}:{tmp_path / 'b'}"
    with pytest.raises(NoCluster, match=rf"cannot use context c of the kubeconfig {paths}: there is no such file"):
        await find_access(None, NOWHERE, {"KUBECONFIG": paths}, "c")


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://proxy:3128"}, "http://proxy:3128"),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "10.0.0.0/8"}, None),
        ({"HTTP_PROXY": "http://proxy:3128"}, None),
    ],
)
async def test_a_proxy_of_the_environment_is_used(
    service_account: Path, environ: dict[str, str], proxy: str | None
) -> None:
    access = await find_access(None, service_account, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"} | environ)
    assert access.proxy == proxy


async def test_a_proxy_that_cannot_be_used_is_named(service_account: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HTTPS_PROXY": "socks5://proxy"}
    with pytest.raises(NoCluster, match="HTTPS_PROXY"):
        await find_access(None, service_account, environ)
