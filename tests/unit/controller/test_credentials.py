"""Secrets are read only if they are meant for us, and their values are bound to hosts."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from controller.credentials import Secrets
from controller.placement.allowed import PUBLIC_SOURCES, parse_allowed
from controller.placement.demand import Demand, base_model_demand
from shared.errors import AuthDenied
from shared.kube.errors import Refused
from shared.kube.transport import Kube
from shared.sources.port import Credentials
from shared.sources.settings import SourceSettings, settings_from_environ
from tests.unit.controller.apiserver import Objects
from tests.unit.controller.worlds import base_model

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


async def test_values_go_to_the_hosts_that_the_secret_names(secrets: Secrets, objects: Objects) -> None:
    objects.objects[PATH] = secret(hosts=" Hub.Example , *.cdn.example,", token="t0p")
    assert await secrets.credentials_of(demand()) == Credentials({"token": "t0p"}, ("hub.example", "*.cdn.example"))


async def test_without_a_word_they_go_to_the_schemes_own_hosts(secrets: Secrets, objects: Objects) -> None:
    objects.objects[PATH] = secret(token="t0p")
    assert "huggingface.co" in (await secrets.credentials_of(demand())).hosts


async def test_no_secret_is_no_request(secrets: Secrets, objects: Objects) -> None:
    assert (await secrets.credentials_of(demand(""))).values == {}
    assert objects.asked == []


async def test_the_key_that_the_model_names_is_the_token(secrets: Secrets, objects: Objects) -> None:
    objects.objects[PATH] = secret(mine="right", HF_TOKEN="another's")
    values = (await secrets.credentials_of(demand(secretKey="mine"))).values
    assert values == {"mine": "right", "token": "right"}
    with pytest.raises(AuthDenied, match="no key 'other'"):
        await secrets.credentials_of(demand(secretKey="other"))


@pytest.mark.parametrize("labelled", ["", "yes", "false"])
async def test_a_secret_that_is_not_labelled_is_not_used(secrets: Secrets, objects: Objects, labelled: str) -> None:
    objects.objects[PATH] = secret(labelled, token="t0p")
    with pytest.raises(AuthDenied, match=r"larder\.dev/credentials=true") as refused:
        await secrets.credentials_of(demand())
    assert "t0p" not in str(refused.value)


async def test_one_that_is_not_there_is_named(secrets: Secrets) -> None:
    with pytest.raises(AuthDenied, match="Secret hub in namespace team does not exist"):
        await secrets.credentials_of(demand())


async def test_a_namespace_whose_secrets_may_not_be_read_has_a_way_out(secrets: Secrets, objects: Objects) -> None:
    objects.refused[PATH] = 403
    with pytest.raises(
        AuthDenied, match="Secrets of namespace team; list it in the chart's value credentialNamespaces"
    ):
        await secrets.credentials_of(demand())
    objects.refused[PATH] = 422
    with pytest.raises(Refused):
        await secrets.credentials_of(demand())


async def test_bytes_that_are_no_text_are_refused_without_showing_them(secrets: Secrets, objects: Objects) -> None:
    objects.objects[PATH] = secret() | {"data": {"token": base64.b64encode(b"\xff\xfe").decode()}}
    with pytest.raises(AuthDenied, match="not text"):
        await secrets.credentials_of(demand())


@pytest.mark.parametrize(
    "name",
    ["../../larder-system/secrets/hub", "hub/../../../nodes", "hub?x=y", "hub#x", "%2e%2e/x", "Hub", "a b", ".."],
)
async def test_a_name_never_leads_to_another_namespace(secrets: Secrets, objects: Objects, name: str) -> None:
    objects.objects["/api/v1/namespaces/larder-system/secrets/hub"] = secret(token="t0p")
    with pytest.raises(AuthDenied, match="cannot be the name of a Secret"):
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
async def test_a_secret_leads_the_models_of_namespaces_only_where_they_may_go(
    kube: Kube, objects: Objects, patterns: str, *, is_allowed: bool
) -> None:
    objects.objects[PATH] = secret(hosts="minio.test", AWS_ENDPOINT_URL=MINIO)
    asking = Secrets(kube, "larder-system", settings_from_environ({}), parse_allowed(patterns))
    wanted = replace(demand(), uri="s3://corp/m #1")
    if is_allowed:
        assert (await asking.credentials_of(wanted)).values == {"AWS_ENDPOINT_URL": MINIO}
    else:
        with pytest.raises(AuthDenied, match=r"leads elsewhere by its AWS_ENDPOINT_URL: https://minio\.test:9000/corp"):
            await asking.credentials_of(wanted)


async def test_the_administrators_own_models_and_endpoint_are_not_bound(kube: Kube, objects: Objects) -> None:
    objects.objects["/api/v1/namespaces/larder-system/secrets/hub"] = secret(AWS_ENDPOINT_URL=MINIO)
    objects.objects[PATH] = secret(AWS_ENDPOINT_URL=MINIO)
    wanted = replace(demand(), uri="s3://corp/m")
    bound = Secrets(kube, "larder-system", settings_from_environ({}), parse_allowed("s3://"))
    assert (await bound.credentials_of(replace(wanted, namespace=""))).values
    configured = Secrets(kube, "larder-system", SourceSettings(s3_endpoint="http://s3.test"), parse_allowed("s3://"))
    assert (await configured.credentials_of(wanted)).values
