"""A scripted server for each kind of source, so that tests can count its requests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shared.sources.settings import SourceSettings

KINDS = ("hf", "s3", "gs", "az", "artifact", "oci", "https")


@dataclass(frozen=True)
class Place:
    """How a kind of source is led to a server: settings and a model's URI for its URL.

    `keys` are credentials of the right form, and `half` are some that are of no use without others.
    """

    settings: Callable[[str, str], SourceSettings]
    uri: Callable[[str], str]
    keys: Mapping[str, str]
    half: Mapping[str, str] = field(default_factory=dict)
    tls: bool = False


def _netloc(url: str) -> str:
    return url.partition("://")[2]


_AWS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "s3cret"}
_AZURE = {"AZURE_STORAGE_KEY": "czNjcmV0"}
_ORACLE = {"OCI_CLI_TENANCY": "t", "OCI_CLI_USER": "u", "OCI_CLI_FINGERPRINT": "f"}

PLACES: Mapping[str, Place] = {
    "hf": Place(lambda url, _: SourceSettings(hf_endpoint=url), lambda _: "hf://org/model", {"HF_TOKEN": "s3cret"}),
    "s3": Place(
        lambda url, _: SourceSettings(s3_endpoint=url),
        lambda _: "s3://bucket/model",
        _AWS,
        {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE"},
    ),
    "gs": Place(lambda url, _: SourceSettings(gcs_endpoint=url), lambda _: "gs://bucket/model", {}),
    "az": Place(
        lambda url, _: SourceSettings(azure_endpoint=url),
        lambda _: "az://account/container/model",
        _AZURE,
        {"AZURE_CLIENT_ID": "id", "AZURE_TENANT_ID": "tenant"},
    ),
    "artifact": Place(
        lambda url, _: SourceSettings(registries=(url,)), lambda url: f"oci://{_netloc(url)}/org/model", {}
    ),
    "oci": Place(
        lambda url, _: SourceSettings(oci_endpoint=url),
        lambda _: "oci://n/namespace/b/bucket/o/model",
        {},
        _ORACLE,
    ),
    "https": Place(
        lambda _, bundle: SourceSettings(allow_addresses=("127.0.0.1",), ca_bundle=bundle),
        lambda url: f"{url}/model.gguf",
        {"token": "s3cret"},
        tls=True,
    ),
}
