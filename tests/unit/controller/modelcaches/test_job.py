"""The strictest namespace accepts the Job of a download, which gets no more than it needs."""

from typing import Any

from controller.downloads.job import DownloadJobSettings, source_environment
from controller.modelcaches.job import DownloadOrder, download_job
from shared.download_report import NEEDS_ACTION
from shared.selection.choice import make_selection
from tests.builders.model_caches import cache

ORDER = DownloadOrder(
    "larder-fill-1", "llama", "s3://models/$(HOME)", "r1", make_selection(["*.json"], pickle=False), 9
)


def manifest(keys: tuple[str, ...] = (), settings: DownloadJobSettings | None = None, **spec: Any) -> dict[str, Any]:
    settings = settings or DownloadJobSettings("image:1", environment={"HF_ENDPOINT": "https://hub"})
    return download_job(cache(**spec), ORDER, keys, ("hub", "*.cdn"), settings)


def pod_of(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["spec"]["template"]["spec"]
    return found


def test_the_job_has_no_token_and_no_privileges() -> None:
    spec = pod_of(manifest())
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in spec
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert [v for v in spec["volumes"] if "secret" in v] == []


def test_the_job_downloads_the_resolved_revision_and_files_at_the_allowed_rate() -> None:
    (container,) = pod_of(manifest())["containers"]
    assert container["args"] == [
        "--to=/models/model", "--revision=r1", "--limit=9", "--allow=*.json", "--duplicate-weights=keep", "--no-pickle",
        "--", "s3://models/$$(HOME)",
    ]  # fmt: skip
    assert {"name": "HF_ENDPOINT", "value": "https://hub"} in container["env"]


def test_only_the_keys_of_the_source_are_mounted_from_the_secret() -> None:
    spec = pod_of(manifest(("HF_TOKEN",), credentials_secret="hub"))
    (secret,) = (v["secret"] for v in spec["volumes"] if "secret" in v)
    assert (secret["secretName"], secret["items"]) == ("hub", [{"key": "HF_TOKEN", "path": "HF_TOKEN"}])
    assert spec["containers"][0]["args"][-5:-2] == ["--credentials=/credentials", "--host=hub", "--host=*.cdn"]


def test_the_job_has_the_node_selector_of_the_cache() -> None:
    found = pod_of(manifest(node_selector={"gpu": "yes"}))["nodeSelector"]
    assert found == {"kubernetes.io/os": "linux", "gpu": "yes"}


def test_the_job_is_owned_by_the_cache_and_fails_at_once_if_a_retry_cannot_help() -> None:
    body = manifest()
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("ModelCache", "u1", True)
    rules = body["spec"]["podFailurePolicy"]["rules"]
    assert rules[0] == {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [NEEDS_ACTION]}}


def test_certificates_of_private_sources_come_from_the_namespaces_own_config_map() -> None:
    settings = DownloadJobSettings("image:1", ca_config_map="ca", ca_key="bundle.pem")
    spec = pod_of(manifest(settings=settings))
    (found,) = (v["configMap"] for v in spec["volumes"] if "configMap" in v)
    assert found == {"name": "ca", "items": [{"key": "bundle.pem", "path": "ca-bundle.crt"}]}
    names = {variable["name"]: variable["value"] for variable in spec["containers"][0]["env"]}
    assert names["SSL_CERT_FILE"] == "/etc/larder/sources/ca-bundle.crt"


def test_secrets_of_the_administrator_are_not_given_to_the_job() -> None:
    environ = {
        "HF_ENDPOINT": "https://hub", "HTTPS_PROXY": "http://user:pass@proxy:3128", "NO_PROXY": "10.0.0.0/8",
        "AWS_SECRET_ACCESS_KEY": "s", "HF_TOKEN": "t", "LARDER_CA": "/x",
    }  # fmt: skip
    assert source_environment(environ) == {"HF_ENDPOINT": "https://hub", "NO_PROXY": "10.0.0.0/8"}
