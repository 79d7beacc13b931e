"""Secrets, and texts that look like secrets, are removed; what engineers need is kept."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cli.support.redact import REMOVED, redact, redact_text

SECRET = "s3cr3tv4lue"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.parametrize(
    "text",
    [
        f"https://bob:{SECRET}@host/path",
        f"https://{SECRET}@host/path",
        f"https://bob:p@{SECRET}@host/path",
        f"s3+http://bob:{SECRET}@host",
        f"https://host/f?X-Amz-Signature={SECRET}&a=b",
        f"https://host/f?a={SECRET}",
        f"redirected to /f?x=1&X-Amz-Security-Token={SECRET}",
        f"blob?sv=1&sig={SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"authorization={SECRET}",
        f'{{"Authorization": "Basic {SECRET}"}}',
        f"Proxy-Authorization: Digest {SECRET}",
        f"sent Bearer {SECRET}",
        f'{{"token": "{SECRET}"}}',
        json.dumps({"inner": json.dumps({"token": SECRET})}),
        f"password={SECRET}",
        f"password: {SECRET}",
        f"AWS_SECRET_ACCESS_KEY={SECRET}",
        f"aws_session_token = {SECRET}",
        f"api-key:{SECRET}",
        f"--registry-token={SECRET}",
        f"set-cookie: {SECRET}",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
        f"-----BEGIN EC PRIVATE KEY-----\\n{SECRET}",
        f"a token hf_{SECRET}{SECRET}",
        f"jwt eyJhbGciOiJSUzI1.{SECRET}.{SECRET}",
    ],
)
def test_secrets_in_text_are_removed(text: str) -> None:
    found = redact_text(text)
    assert SECRET not in found
    assert REMOVED in found


@pytest.mark.parametrize(
    "text",
    [
        "hf://org/repo@main is revision 0123456789abcdef",
        "s3://bucket@eu-west-1/prefix",
        "need 8 MiB, have 3 MiB (limit 3145728 bytes = 3.0 MiB)",
        "label it larder.dev/credentials=true to allow its use",
        "Secret s3-reader in namespace larder-system does not exist",
        "system:serviceaccount:larder-system:larder-agent",
        "the token is not accepted for audience 'larder'",
        "sha256:" + "a" * 64,
    ],
)
def test_text_that_is_not_a_secret_is_kept(text: str) -> None:
    assert redact_text(text) == text


@given(st.text(max_size=300))
def test_redacting_text_twice_changes_nothing(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


def test_cloud_access_keys_are_removed() -> None:
    assert redact_text("as AKIAABCDEFGHIJKLMNOP now") == f"as {REMOVED} now"


def test_fields_with_the_names_of_secrets_are_removed() -> None:
    reported = redact({"password": SECRET, "apiKey": SECRET, "tokens": [SECRET], "deep": {"accessKey": SECRET}})
    assert reported == {"password": REMOVED, "apiKey": REMOVED, "tokens": [REMOVED], "deep": {"accessKey": REMOVED}}


def test_the_names_of_secrets_are_kept() -> None:
    named = {"secretName": "s3-reader", "credentialsSecret": "s3-reader", "parameters": {"secretKey": "token"}}
    assert redact(named) == named


def test_only_the_keys_of_maps_of_free_text_are_kept() -> None:
    assert redact({"parameters": {"a": SECRET}, "modelConfiguration": {"b": {"c": SECRET}}}) == {
        "parameters": {"a": REMOVED},
        "modelConfiguration": {"b": REMOVED},
    }
    assert redact({"data": {"tls.key": SECRET}, "stringData": {"x": SECRET}}) == {
        "data": {"tls.key": REMOVED},
        "stringData": {"x": REMOVED},
    }


def test_only_the_keys_of_foreign_annotations_are_kept() -> None:
    annotations = {LAST_APPLIED: SECRET, "team.example/x": SECRET, "larder.dev/models": "m@r1"}
    assert redact({"annotations": annotations}) == {
        "annotations": {LAST_APPLIED: REMOVED, "team.example/x": REMOVED, "larder.dev/models": "m@r1"}
    }


def test_variables_that_larder_does_not_read_lose_their_values() -> None:
    known = {"name": "LARDER_WORKERS", "value": "8"}
    of_secret = {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    reported = redact(
        {"env": [known, {"name": "PLAIN", "value": SECRET}, {"name": "LARDER_API_TOKEN", "value": SECRET}, of_secret]}
    )
    assert reported["env"] == [
        known, {"name": "PLAIN", "value": REMOVED}, {"name": "LARDER_API_TOKEN", "value": REMOVED}, of_secret,
    ]  # fmt: skip


def test_commands_and_headers_are_removed_and_labels_kept() -> None:
    reported = redact({"args": ["-p", SECRET], "command": ["x"], "httpHeaders": [{"name": "a", "value": SECRET}]})
    assert reported == {"args": REMOVED, "command": REMOVED, "httpHeaders": REMOVED}
    assert redact({"labels": {"larder.dev/credentials": "true"}}) == {"labels": {"larder.dev/credentials": "true"}}


def test_managed_fields_are_dropped_and_a_ca_bundle_is_replaced_by_its_digest() -> None:
    reported = redact({"managedFields": [{"x": 1}], "caBundle": "LS0t"})
    assert reported == {"caBundle": "4 characters, SHA-256 " + reported["caBundle"].rpartition(" ")[2]}


@pytest.mark.parametrize("around", ["%s/mutate-pods", 'Post "https://larder.ns.svc:443%s/validate": refused'])
def test_the_key_in_the_path_of_admission_is_removed(around: str) -> None:
    assert redact_text(around % f"/admission/{'kEy0' * 12}") == around % f"/admission/{REMOVED}"
