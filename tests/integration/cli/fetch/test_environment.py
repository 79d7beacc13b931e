"""Credentials, endpoints and CAs from the usual variables and files, with real servers and both commands."""

import json
import ssl
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from rig.azure import Azure
from rig.gcs import Gcs
from rig.hub import Hub, RepositoryAccess
from rig.proxy import HttpProxy
from rig.registry import Registry
from rig.s3 import S3
from rig.scripted_http import reply, scripted
from tests.integration.cli.fetch.command import larder

CONFIG = b'{"model_type": "llama"}'
AWS_KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
Both = Callable[..., None]


@pytest.fixture
def both(tmp_path: Path) -> Both:
    """Fetch and inspect a model of one file; check that both fail without the environment's credentials."""

    def check(uri: str, endpoint: dict[str, str], credentials: dict[str, str]) -> None:
        to = tmp_path / "to"
        done = larder("fetch", uri, "--to", str(to), **endpoint, **credentials)
        assert (done.returncode, done.stderr) == (0, "")
        assert (to / "config.json").read_bytes() == CONFIG
        reported = larder("inspect", uri, "-o", "json", **endpoint, **credentials)
        assert (reported.returncode, reported.stderr) == (0, "")
        assert json.loads(reported.stdout)["modelType"] == "llama"
        refused = larder("fetch", uri, "--to", str(tmp_path / "no"), **endpoint)
        assert refused.returncode == 1
        assert refused.stderr.partition(":")[0] in ("AuthDenied", "SourceNotFound")

    return check


@pytest.fixture
def private_hub(hub: Hub, tmp_path: Path) -> Hub:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_bytes(CONFIG)
    hub.push("env/model", tmp_path / "model", access=RepositoryAccess(frozenset({"hf_good"})))
    return hub


def test_the_token_file_of_the_hub_client_is_used(both: Both, private_hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_good\n")
    both("hf://env/model", {"HF_ENDPOINT": private_hub.endpoint}, {"HF_HOME": str(tmp_path)})


def test_s3_keys_and_endpoint_are_taken_from_the_environment(both: Both, s3: S3) -> None:
    bucket = f"env-{uuid.uuid4().hex}"
    s3.put(bucket, "m/config.json", CONFIG)
    keys = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}
    both(f"s3://{bucket}/m", {"AWS_ENDPOINT_URL_S3": s3.endpoint, "AWS_DEFAULT_REGION": s3.region}, keys)


def test_a_profile_of_the_aws_config_files_is_used(both: Both, s3: S3, tmp_path: Path) -> None:
    bucket = f"env-{uuid.uuid4().hex}"
    s3.put(bucket, "m/config.json", CONFIG)
    lines = ["[rig]", f"aws_access_key_id = {s3.access_key}", f"aws_secret_access_key = {s3.secret_key}"]
    (tmp_path / "keys").write_text("\n".join(lines))
    (tmp_path / "config").write_text(f"[profile rig]\nregion = {s3.region}\n")
    files = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "keys"), "AWS_CONFIG_FILE": str(tmp_path / "config")}
    both(f"s3://{bucket}/m", {"AWS_ENDPOINT_URL": s3.endpoint}, {"AWS_PROFILE": "rig", **files})


def test_a_google_service_account_key_file_is_used(both: Both, gcs: Gcs, tmp_path: Path) -> None:
    bucket = f"env-{uuid.uuid4().hex}"
    gcs.make_bucket(bucket)
    gcs.put(bucket, "m/config.json", CONFIG)
    gcs.private.add(bucket)
    (tmp_path / "key.json").write_text(gcs.account.key_file())
    key = {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "key.json")}
    both(f"gs://{bucket}/m", {"STORAGE_EMULATOR_HOST": gcs.endpoint}, key)


@pytest.mark.parametrize("kind", ["AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CONNECTION_STRING"])
def test_azure_keys_tokens_and_connection_strings_are_used(both: Both, azure: Azure, kind: str) -> None:
    container = f"env-{uuid.uuid4().hex}"
    azure.make_container(container)
    azure.put(container, "m/config.json", CONFIG)
    text = f"AccountName={azure.account};AccountKey={azure.key};BlobEndpoint={azure.endpoint}/{azure.account};"
    value = {
        "AZURE_STORAGE_KEY": azure.key,
        "AZURE_STORAGE_SAS_TOKEN": azure.sas(),
        "AZURE_STORAGE_CONNECTION_STRING": text,
    }[kind]
    credentials = {kind: value, "AZURE_STORAGE_ACCOUNT": azure.account}
    both(f"az://{azure.account}/{container}/m", {"AZURE_STORAGE_SERVICE_ENDPOINT": azure.endpoint}, credentials)


@pytest.mark.parametrize("variable", ["DOCKER_CONFIG", "HOME"])
def test_the_docker_config_gives_access_to_a_private_registry(
    both: Both, registry: Registry, tmp_path: Path, variable: str
) -> None:
    repository = f"env/{uuid.uuid4().hex}"
    registry.push(repository, "v1", {"config.json": CONFIG})
    registry.tokens.private.add(repository)
    folder = tmp_path / ".docker"
    folder.mkdir()
    (folder / "config.json").write_text(registry.tokens.docker_config(registry.name))
    value = str(folder if variable == "DOCKER_CONFIG" else tmp_path)
    both(f"oci://{registry.name}/{repository}:v1", {"LARDER_REGISTRIES": registry.endpoint}, {variable: value})


def test_the_usual_ca_bundle_variables_are_honoured(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with scripted(
        lambda asked: reply(200, b"" if asked.method == "HEAD" else CONFIG, Content_Length="23"), context
    ) as far:
        for variable in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
            to = tmp_path / variable
            done = larder("fetch", f"{far.url}/config.json", "--to", str(to), **{variable: str(tmp_path / "ca.pem")})
            assert (done.returncode, done.stderr) == (0, "")


def test_the_password_of_a_proxy_is_never_printed(private_hub: Hub, tmp_path: Path) -> None:
    with HttpProxy("user:right") as proxy:
        environ = {"HF_ENDPOINT": private_hub.endpoint, "HF_TOKEN": "hf_good"}
        for user, code in (("user:right", 0), ("user:sekret", 1)):
            to = str(tmp_path / str(code))
            done = larder("fetch", "hf://env/model", "--to", to, HTTP_PROXY=f"http://{user}@{proxy.host}", **environ)
            assert done.returncode == code
            assert "sekret" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("uri", "endpoint", "credentials", "place"),
    [
        ("hf://a/b", "HF_ENDPOINT", {"HF_TOKEN": "x"}, "set HF_TOKEN to a token that may read it"),
        ("s3://bucket/m", "AWS_ENDPOINT_URL", AWS_KEYS, "AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN"),
        ("s3://bucket/m", "AWS_ENDPOINT_URL", {}, "the profile AWS_PROFILE of ~/.aws/credentials"),
        ("gs://bucket/m", "STORAGE_EMULATOR_HOST", {}, "set GOOGLE_APPLICATION_CREDENTIALS to a file"),
        (
            "az://mine/container/m",
            "AZURE_STORAGE_SERVICE_ENDPOINT",
            {"AZURE_STORAGE_KEY": "a2V5"},
            "set AZURE_STORAGE_ACCOUNT",
        ),
        ("oci://n/ns/b/bucket/o/m", "OCI_CLI_ENDPOINT", {}, "set OCI_CLI_TENANCY, OCI_CLI_USER"),
        ("oci://n/ns/b/bucket/o/m", "UNUSED", {}, "in the variable OCI_CLI_REGION"),
        ("oci://{host}/a/b:v1", "LARDER_REGISTRIES", {}, "docker's config.json (in DOCKER_CONFIG, else in ~/.docker)"),
        ("https://u.test/f?token=t", "UNUSED", {}, "for a command, into the environment"),
    ],
)
def test_a_refusal_names_where_to_set_credentials(
    uri: str, endpoint: str, credentials: dict[str, str], place: str, tmp_path: Path
) -> None:
    with scripted(lambda _: reply(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")) as far:
        where = uri.format(host=far.url.removeprefix("http://"))
        for command in (["fetch", where, "--to", str(tmp_path / "to")], ["inspect", where]):
            done = larder(*command, **{endpoint: far.url}, **credentials)
            assert (done.returncode, place in done.stderr) == (1, True), done.stderr


def test_a_refusal_by_a_plain_web_server_explains_that_no_credentials_are_sent(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with scripted(lambda _: reply(401), context) as far:
        for command in (["fetch", f"{far.url}/f", "--to", str(tmp_path / "to")], ["inspect", f"{far.url}/f"]):
            done = larder(*command, SSL_CERT_FILE=str(tmp_path / "ca.pem"))
            assert "commands send no credentials" in done.stderr
            assert "Secret" not in done.stderr
