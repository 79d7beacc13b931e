"""Secrets are read only if they are meant for us, and their values are bound to hosts."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from controller.placement.allowed_sources import PUBLIC_SOURCES, parse_allowed
from controller.placement.demand import Demand
from controller.placement.demand_of_kind import base_model_demand
from controller.sources.credentials import Secrets
from shared.errors import AuthDenied
from shared.kube.errors import Refused
from shared.kube.transport import Kube
from shared.sources.port import Credentials
from shared.sources.settings import SourceSettings, settings_from_environ
from tests.builders.api_server import Objects
from tests.builders.cluster import base_model

PATH = "/api/v1/namespaces/team/secrets/hub"


@pytest.fixture
def secrets(kube: Kube) -> Secrets:
    return Secrets(kube, "larder-system", settings_from_environ({}))


def demand(name: str = "hub", **parameters: str) -> Demand:
    return base_model_demand("BaseModel", base_model("team", "m", secret=name, **parameters))


def secret(labelled: str = "true", hosts: str = "", **values: str) -> dict[str, Any]:
    metadata = {
        "name": "hub",
        "labels": {"larder.dev/credentials": labelled},
        "annotations": {"larder.dev/hosts": hosts},
    }
    return {"metadata": metadata, "data": {k: base64.b64encode(v.encode()).decode() for k, v in values.items()}}


async def test_credentials_are_bound_to_the_hosts_that_the_secret_names(secrets: Secrets, objects: Objects) -> None:
    objects.objects[PATH] = secret(hosts=" Hub.Example , *.cdn.example,", token="t0p")
    assert await secrets.credentials_of(demand()) == Credentials({"token": "t0p"}, ("hub.example", "*.cdn.example"))


async def test_credentials_are_bound_to_the_hosts_of_the_scheme_by_default(secrets: Secrets, objects: Objects) -> None:
    objects.objects[PATH] = secret(token="t0p")
    assert "huggingface.co" in (await secrets.credentials_of(demand())).hosts


async def test_a_model_without_a_secret_causes_no_request(secrets: Secrets, objects: Objects) -> None:
    assert (await secrets.credentials_of(demand(""))).values == {}
    assert objects.asked == []


async def test_the_key_that_the_model_names_is_the_token(secrets: Secrets, objects: Objects) -> None:
    objects.objects[PATH] = secret(**{"my-token": "right", "HF_TOKEN": "another's"})
    assert (await secrets.credentials_of(demand(secretKey="my-token"))).values == {"token": "right"}
    with pytest.raises(AuthDenied, match="Secret hub in namespace team has no key 'other-token'"):
        await secrets.credentials_of(demand(secretKey="other-token"))


FOREIGN_KEYS = [
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "aws-session-token", "awsSessionToken", "AWS_WEB_IDENTITY_TOKEN",
    "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_SECRET", "azure.token", "GOOGLE_APPLICATION_CREDENTIALS", "google_token",
    "OCI_CLI_KEY_CONTENT", ".dockerconfigjson", "config.json", "tls.key", "password", "ssh-privatekey",
]  # fmt: skip


@pytest.mark.parametrize("key", FOREIGN_KEYS)
@pytest.mark.parametrize("uri", ["hf://o/m", "https://hub.example/f"])
async def test_keys_of_other_sources_are_refused_as_a_token(
    secrets: Secrets, objects: Objects, key: str, uri: str
) -> None:
    objects.objects[PATH] = secret(hosts="hub.example", **{key: "s3cret"})
    with pytest.raises(AuthDenied, match="which is not sent as a token") as refused:
        await secrets.credentials_of(replace(demand(secretKey=key), uri=uri))
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("uri", ["s3://bucket/m", "gs://bucket/m", "az://account/container/m", "oci://r.test/m:1"])
async def test_sources_that_use_no_token_refuse_one(secrets: Secrets, objects: Objects, uri: str) -> None:
    objects.objects[PATH] = secret(token="t0p")
    with pytest.raises(AuthDenied, match=r"only hf://, https:// and git\+https:// accept a token"):
        await secrets.credentials_of(replace(demand(secretKey="token"), uri=uri))


async def test_a_hub_token_is_not_used_for_other_hosts(secrets: Secrets, objects: Objects) -> None:
    objects.objects[PATH] = secret(hosts="huggingface.co,hub.example", HF_TOKEN="t0p")
    own = replace(demand(), uri="https://huggingface.co/o/m/resolve/main/f")
    assert (await secrets.credentials_of(own)).values == {"HF_TOKEN": "t0p"}
    for wanted in (
        replace(demand(secretKey="HF_TOKEN"), uri="https://hub.example/f"),
        replace(demand(), uri="https://hub.example/f"),
    ):
        with pytest.raises(AuthDenied):
            await secrets.credentials_of(wanted)


ALL = {
    "HF_TOKEN": "h", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu-west-1", "unknown": "u",
    "GOOGLE_APPLICATION_CREDENTIALS": "{}", "AZURE_STORAGE_KEY": "k", "AZURE_CLIENT_ID": "half of another way",
    ".dockerconfigjson": '{"auths": {"r.test": {"auth": "dTpw"}}}',
    "OCI_CLI_TENANCY": "t", "OCI_CLI_USER": "u", "OCI_CLI_FINGERPRINT": "f", "OCI_CLI_KEY_CONTENT": "k",
}  # fmt: skip


@pytest.mark.parametrize(
    ("uri", "keys"),
    [
        ("hf://o/m", {"HF_TOKEN"}),
        ("s3://bucket/m", {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"}),
        ("gs://bucket/m", {"GOOGLE_APPLICATION_CREDENTIALS"}),
        ("az://account/container/m", {"AZURE_STORAGE_KEY", "AZURE_CLIENT_ID"}),
        ("oci://r.test/m:1", {".dockerconfigjson"}),
        ("oci://bucket@ns/m", {"OCI_CLI_TENANCY", "OCI_CLI_USER", "OCI_CLI_FINGERPRINT", "OCI_CLI_KEY_CONTENT"}),
    ],
)
async def test_a_source_gets_only_the_keys_that_it_uses(
    secrets: Secrets, objects: Objects, uri: str, keys: set[str]
) -> None:
    objects.objects[PATH] = secret(**ALL)
    assert set((await secrets.credentials_of(replace(demand(), uri=uri))).values) == keys


@pytest.mark.parametrize(
    ("uri", "values", "phrase"),
    [
        (
            "hf://o/m",
            {"AWS_SECRET_ACCESS_KEY": "s3cret"},
            r"no credentials for hf://; add HF_TOKEN, or token to it",
        ),
        ("hf://o/m", {"HF_TOKEN": " "}, "add HF_TOKEN"),
        ("https://h.test/f", {"HF_TOKEN": "s3cret"}, "no credentials for https://.*; add token to it"),
        ("s3://bucket/m", {"AWS_ACCESS_KEY_ID": "s3cret"}, "has AWS_ACCESS_KEY_ID but not AWS_SECRET_ACCESS_KEY"),
        ("s3://bucket/m", {"AWS_SECRET_ACCESS_KEY": "s3cret"}, "has AWS_SECRET_ACCESS_KEY but not AWS_ACCESS_KEY_ID"),
        ("s3://bucket/m", {"accesskey": "s3cret"}, "add AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to it"),
        ("az://account/container/m", {"AZURE_CLIENT_ID": "s3cret"}, "but not AZURE_TENANT_ID and AZURE_CLIENT_SECRET"),
        ("gs://bucket/m", {"key.json": "s3cret"}, "add GOOGLE_APPLICATION_CREDENTIALS"),
        (
            "oci://bucket@ns/m",
            {"OCI_CLI_USER": "s3cret"},
            "but not OCI_CLI_TENANCY and OCI_CLI_FINGERPRINT and OCI_CLI",
        ),
        ("oci://r.test/m:1", {"token": "s3cret"}, r"add \.dockerconfigjson, or config\.json"),
        ("oci://r.test/m:1", {"config.json": '{"auths": {"x.test": {"auth": "dTpw"}}}'}, "no account for r.test"),
        ("local:///models/m", {"token": "s3cret"}, "takes no credentials"),
    ],
)
async def test_a_missing_secret_is_reported_in_the_namespace_of_the_model(
    secrets: Secrets, objects: Objects, uri: str, values: dict[str, str], phrase: str
) -> None:
    ours = PATH.replace("/team/", "/larder-system/")
    objects.objects[PATH] = objects.objects[ours] = secret(**values)
    wanted = replace(demand(), uri=uri)
    with pytest.raises(AuthDenied, match=phrase) as refused:
        await secrets.credentials_of(wanted)
    assert "Secret hub in namespace team" in str(refused.value) or "takes no credentials" in phrase
    assert "s3cret" not in str(refused.value)
    reported = set()
    for there in (objects.objects[ours], secret("no", **values), secret(), None):
        objects.objects.pop(ours)
        if there is not None:
            objects.objects[ours] = there
        with pytest.raises(AuthDenied) as refused:
            await secrets.credentials_of(replace(wanted, namespace=""))
        objects.objects[ours] = secret()
        reported.add(str(refused.value))
    assert len(reported) == 1
    assert "the controller's log says what is wrong" in reported.pop()


@pytest.mark.parametrize("labelled", ["", "yes", "false"])
async def test_a_secret_without_the_label_is_refused(secrets: Secrets, objects: Objects, labelled: str) -> None:
    objects.objects[PATH] = secret(labelled, token="t0p")
    with pytest.raises(AuthDenied, match=r"larder\.dev/credentials=true") as refused:
        await secrets.credentials_of(demand())
    assert "t0p" not in str(refused.value)


async def test_a_secret_that_does_not_exist_is_named_with_its_namespace(secrets: Secrets) -> None:
    with pytest.raises(AuthDenied, match="Secret hub in namespace team does not exist"):
        await secrets.credentials_of(demand())


async def test_a_namespace_whose_secrets_may_not_be_read_has_a_remedy(secrets: Secrets, objects: Objects) -> None:
    objects.refused[PATH] = 403
    with pytest.raises(
        AuthDenied, match="Secrets in namespace team; add the namespace to credentialNamespaces in the chart's values"
    ):
        await secrets.credentials_of(demand())
    objects.refused[PATH] = 422
    with pytest.raises(Refused):
        await secrets.credentials_of(demand())


async def test_a_value_that_is_not_text_is_refused(secrets: Secrets, objects: Objects) -> None:
    objects.objects[PATH] = secret() | {"data": {"token": base64.b64encode(b"\xff\xfe").decode()}}
    with pytest.raises(AuthDenied, match="not text"):
        await secrets.credentials_of(demand())


@pytest.mark.parametrize(
    "name",
    ["../../larder-system/secrets/hub", "hub/../../../nodes", "hub?x=y", "hub#x", "%2e%2e/x", "Hub", "a b", ".."],
)
async def test_a_secret_name_with_a_path_is_refused_without_a_request(
    secrets: Secrets, objects: Objects, name: str
) -> None:
    objects.objects["/api/v1/namespaces/larder-system/secrets/hub"] = secret(token="t0p")
    with pytest.raises(AuthDenied, match="is not a valid Secret name"):
        await secrets.credentials_of(demand(name))
    assert objects.asked == []


async def test_values_are_never_shown(secrets: Secrets, objects: Objects) -> None:
    objects.objects[PATH] = secret(token="t0p")
    assert "t0p" not in repr(await secrets.credentials_of(demand()))


MINIO = "https://minio.test:9000"


@pytest.mark.parametrize(
    ("patterns", "is_allowed"),
    [
        ("s3://,https://minio.test:9000", True),
        ("s3://,https://*.test:9000/corp", True),
        ("*", True),
        ("s3://", False),
        ("s3://,https://minio.test", False),
        ("s3://,https://minio.test:9000/corporation", False),
        (",".join(PUBLIC_SOURCES.patterns), False),
    ],
)
async def test_an_endpoint_from_a_secret_must_be_an_allowed_source(
    kube: Kube, objects: Objects, patterns: str, *, is_allowed: bool
) -> None:
    objects.objects[PATH] = secret(hosts="minio.test", AWS_ENDPOINT_URL=MINIO)
    asking = Secrets(kube, "larder-system", settings_from_environ({}), parse_allowed(patterns))
    wanted = replace(demand(), uri="s3://corp/m #1")
    if is_allowed:
        assert (await asking.credentials_of(wanted)).values == {"AWS_ENDPOINT_URL": MINIO}
    else:
        with pytest.raises(
            AuthDenied, match=r"sets AWS_ENDPOINT_URL to a source that is not allowed: https://minio\.test:9000/corp"
        ):
            await asking.credentials_of(wanted)


async def test_the_list_of_allowed_sources_does_not_bind_the_administrator(kube: Kube, objects: Objects) -> None:
    objects.objects["/api/v1/namespaces/larder-system/secrets/hub"] = secret(AWS_ENDPOINT_URL=MINIO)
    objects.objects[PATH] = secret(AWS_ENDPOINT_URL=MINIO)
    wanted = replace(demand(), uri="s3://corp/m")
    bound = Secrets(kube, "larder-system", settings_from_environ({}), parse_allowed("s3://"))
    assert (await bound.credentials_of(replace(wanted, namespace=""))).values
    configured = Secrets(kube, "larder-system", SourceSettings(s3_endpoint="http://s3.test"), parse_allowed("s3://"))
    assert (await configured.credentials_of(wanted)).values
