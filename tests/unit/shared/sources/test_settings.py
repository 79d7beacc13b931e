from pathlib import Path

import pytest

from shared.errors import InvalidSettings, InvalidURI
from shared.sources.ambient_credentials import credentials_from_environ
from shared.sources.cloud_hosts import AWS_HOSTS
from shared.sources.port import ANONYMOUS
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings, default_hosts, settings_from_environ
from shared.uri.model_uri import parse_uri


def test_an_empty_environment_gives_the_public_endpoints() -> None:
    settings = settings_from_environ({})
    assert settings == SourceSettings()
    assert default_hosts("hf", settings) == ("huggingface.co",)
    assert default_hosts("s3", settings) == AWS_HOSTS
    assert default_hosts("gs", settings) == ("storage.googleapis.com",)
    assert default_hosts("az", settings) == ("*.blob.core.windows.net",)
    assert default_hosts("oci", settings) == ("objectstorage.*.oraclecloud.com",)
    assert default_hosts("https", settings) == default_hosts("local", settings) == ()


def test_reads_the_usual_variables(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.touch()
    settings = settings_from_environ(
        {
            "HF_ENDPOINT": "http://hub.test:81/",
            "AWS_ENDPOINT_URL": "https://s3.test/",
            "AWS_DEFAULT_REGION": "eu-west-1",
            "LARDER_ALLOW_ADDRESSES": "10.0.0.0/8, 127.0.0.1",
            "SSL_CERT_FILE": str(bundle),
        }
    )
    assert settings == SourceSettings(
        "http://hub.test:81", "https://s3.test", "eu-west-1", ("10.0.0.0/8", "127.0.0.1"), str(bundle)
    )
    assert default_hosts("hf", settings) == ("hub.test:81",)
    assert default_hosts("s3", settings) == ("s3.test",)
    others = settings_from_environ(
        {
            "STORAGE_EMULATOR_HOST": "http://gcs.test:4443/",
            "AZURE_STORAGE_SERVICE_ENDPOINT": "http://az.test/account/",
            "OCI_CLI_ENDPOINT": "https://objects.test",
            "OCI_CLI_REGION": "eu-frankfurt-1",
            "LARDER_REGISTRIES": "http://r.test:5000, https://s.test/",
            "LARDER_LOCAL_ROOTS": "/models:/more",
        }
    )
    assert others.endpoints[1:] == (
        "http://gcs.test:4443", "http://az.test/account", "https://objects.test", "http://r.test:5000", "https://s.test"
    )  # fmt: skip
    assert (others.oci_region, others.local_roots) == ("eu-frankfurt-1", ("/models", "/more"))
    assert default_hosts("gs", others) == ("gcs.test:4443",)
    assert settings_from_environ({"AWS_REGION": "a", "AWS_DEFAULT_REGION": "b"}).s3_region == "a"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_ENDPOINT", "hub.test"),
        ("AWS_ENDPOINT_URL", "ftp://s3.test"),
        ("AWS_ENDPOINT_URL_S3", "ftp://s3.test"),
        ("LARDER_ALLOW_ADDRESSES", "10.0.0.0/33"),
        ("LARDER_ALLOW_ADDRESSES", "hub.test"),
        ("LARDER_LOCAL_ROOTS", "models"),
        ("LARDER_S3_ADDRESSING", "auto"),
        ("STORAGE_EMULATOR_HOST", "gcs.test:4443"),
        ("HTTPS_PROXY", "https://p.test:1"),
        ("HTTP_PROXY", "socks5://p.test:1"),
    ],
)
def test_an_invalid_value_is_shown_with_its_variable_and_what_to_write(name: str, value: str) -> None:
    with pytest.raises(InvalidSettings, match=rf"^{name}: '{value}' .*; write "):
        settings_from_environ({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_ENDPOINT", "https://user:password@hub.test"),
        ("AZURE_STORAGE_SERVICE_ENDPOINT", "https://az.test?sig=password"),
        ("LARDER_REGISTRIES", "http://r.test user:password@s.test"),
        ("HTTPS_PROXY", "https://user:password@p.test"),
    ],
)
def test_an_invalid_value_that_may_have_a_password_is_hidden(name: str, value: str) -> None:
    with pytest.raises(InvalidSettings, match=rf"^{name}: its value \(hidden, .*\) is not .*; write http") as caught:
        settings_from_environ({name: value})
    assert "password" not in str(caught.value)


def test_of_an_invalid_connection_string_only_the_endpoint_is_shown() -> None:
    text = "AccountName=mine;AccountKey=a2V5==;BlobEndpoint=az.test:1/mine"
    with pytest.raises(InvalidSettings, match=r"^BlobEndpoint in AZURE_.*_STRING: 'az\.test:1' is ") as caught:
        settings_from_environ({"AZURE_STORAGE_CONNECTION_STRING": text})
    assert "a2V5" not in str(caught.value)


def test_credentials_of_the_shell_are_granted_to_the_default_hosts() -> None:
    found = credentials_from_environ({"HF_TOKEN": "t", "AWS_SESSION_TOKEN": "", "HOME": "/x"}, SourceSettings())
    assert dict(found.values) == {"HF_TOKEN": "t"}
    assert found.hosts == (
        "huggingface.co", *AWS_HOSTS, "storage.googleapis.com", "*.blob.core.windows.net",
        "objectstorage.*.oraclecloud.com",
    )  # fmt: skip
    assert "'t'" not in repr(found)


def test_variables_that_name_files_are_replaced_by_the_text_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"auths": {}}')
    (tmp_path / "key.json").write_text("{}")
    environ = {"DOCKER_CONFIG": str(tmp_path), "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "key.json")}
    found = credentials_from_environ(environ, SourceSettings())
    assert dict(found.values) == {".dockerconfigjson": '{"auths": {}}', "GOOGLE_APPLICATION_CREDENTIALS": "{}"}
    missing = {"DOCKER_CONFIG": "/none", "GOOGLE_APPLICATION_CREDENTIALS": "/none"}
    assert not credentials_from_environ(missing, SourceSettings()).values


def test_a_scheme_without_a_source_is_named_in_the_error() -> None:
    with pytest.raises(InvalidURI, match="no source fetches pvc://"):
        open_source(parse_uri("pvc://ns/claim/model"), ANONYMOUS, SourceSettings())


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_missing_ca_bundle_is_reported_with_the_variable_that_names_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidSettings, match=rf"^{name}: there is no {tmp_path}/nope; name a file"):
        settings_from_environ({name: f"{tmp_path}/nope"})
    assert settings_from_environ({name: str(tmp_path)}).ca_bundle == str(tmp_path)


def test_the_ca_bundle_for_s3_is_used_only_for_s3(tmp_path: Path) -> None:
    settings = settings_from_environ({"AWS_CA_BUNDLE": str(tmp_path)})
    assert (settings.s3_ca_bundle, settings.ca_bundle) == (str(tmp_path), None)
    with pytest.raises(InvalidSettings, match=r"^AWS_CA_BUNDLE: there is no /nope"):
        settings_from_environ({"AWS_CA_BUNDLE": "/nope"})
