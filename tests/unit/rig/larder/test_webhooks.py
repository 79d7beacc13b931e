"""The configurations as data; integration tests check that the API server accepts them."""

import base64
from typing import Any

import pytest

from rig.larder.webhooks import (
    AtService,
    AtUrl,
    WebhookSettings,
    injector_configuration,
    mutating_configuration,
    validating_configuration,
)

KEY = "k" * 40
SETTINGS = WebhookSettings(AtUrl("https://127.0.0.1:1/"), b"PEM", KEY, "larder-system", "/var/lib/larder")


def _all(settings: WebhookSettings = SETTINGS) -> list[dict[str, Any]]:
    return [*mutating_configuration(settings)["webhooks"], *validating_configuration(settings)["webhooks"]]


def test_every_webhook_fails_closed_within_ten_seconds_and_has_no_side_effects() -> None:
    for webhook in _all():
        assert webhook["failurePolicy"] == "Fail"
        assert webhook["sideEffects"] == "None"
        assert webhook["timeoutSeconds"] <= 10
        assert webhook["admissionReviewVersions"] == ["v1"]
        assert webhook["matchConditions"]
        assert base64.b64decode(webhook["clientConfig"]["caBundle"]) == b"PEM"


def test_pods_of_the_cluster_s_own_and_our_namespace_are_never_sent() -> None:
    for webhook in mutating_configuration(SETTINGS)["webhooks"]:
        (rule,) = webhook["namespaceSelector"]["matchExpressions"]
        assert rule["values"] == ["kube-system", "larder-system"]
        assert webhook["reinvocationPolicy"] == "IfNeeded"


def test_a_webhook_is_reached_by_url_or_by_service() -> None:
    assert [w["clientConfig"]["url"] for w in _all()] == [
        f"https://127.0.0.1:1/admission/{KEY}/mutate-pods",
        f"https://127.0.0.1:1/admission/{KEY}/mutate-jobs",
        f"https://127.0.0.1:1/admission/{KEY}/mutate-pods",
        f"https://127.0.0.1:1/admission/{KEY}/validate",
    ]
    inside = WebhookSettings(AtService("larder-system", "larder"), b"PEM", KEY, "larder-system", "/var/lib/larder")
    assert _all(inside)[0]["clientConfig"]["service"] == {
        "namespace": "larder-system",
        "name": "larder",
        "port": 443,
        "path": f"/admission/{KEY}/mutate-pods",
    }


def test_the_injector_webhook_matches_the_specification() -> None:
    configuration = injector_configuration(SETTINGS)
    assert configuration["metadata"]["name"] == "model-injector"
    (webhook,) = configuration["webhooks"]
    (condition,) = webhook.pop("matchConditions")
    assert '"models.example.com/inject" in object.metadata.annotations' in condition["expression"]
    assert webhook.pop("clientConfig")["url"] == f"https://127.0.0.1:1/admission/{KEY}/mutate"
    assert webhook.pop("namespaceSelector")
    assert webhook == {
        "name": "model-injector.models.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "failurePolicy": "Ignore",
        "objectSelector": {"matchExpressions": [{"key": "models.example.com/injected", "operator": "DoesNotExist"}]},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["pods"],
                "operations": ["CREATE"],
                "scope": "Namespaced",
            }
        ],
    }


@pytest.mark.parametrize(
    "resource", ["models", "basemodels", "clusterbasemodels", "clustermodelcaches", "modelcachenodegroups"]
)
def test_every_kind_is_checked_on_every_write_but_not_its_status(resource: str) -> None:
    (webhook,) = validating_configuration(SETTINGS)["webhooks"]
    (rule,) = [r for r in webhook["rules"] if r["resources"] == [resource]]
    assert rule["operations"] == ["CREATE", "UPDATE", "DELETE"]


def test_training_jobs_may_be_deleted_while_the_server_is_down() -> None:
    (webhook,) = validating_configuration(SETTINGS)["webhooks"]
    (rule,) = [r for r in webhook["rules"] if r["resources"] == ["trainingjobs"]]
    assert rule["operations"] == ["CREATE", "UPDATE"]
