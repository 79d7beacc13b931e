from pathlib import Path

import pytest

from shared.sources.ambient_credentials import credentials_from_environ
from shared.sources.settings import SourceSettings, settings_from_environ


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name, text in {
        ".cache/huggingface/token": "of-the-cache\n",
        ".docker/config.json": '{"auths": {}}',
        ".aws/credentials": "[default]\naws_access_key_id=id\naws_secret_access_key=a%b\n[work]\naws_access_key_id=w",
        ".aws/config": "[default]\nregion=eu-north-1\n[profile work]\nregion=eu-west-1\naws_secret_access_key=s\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def found(**environ: str) -> dict[str, str]:
    return dict(credentials_from_environ(environ, SourceSettings()).values)


def test_credentials_are_found_in_the_usual_files_of_the_home_directory(home: Path) -> None:
    assert found(HOME=str(home)) == {
        "HF_TOKEN": "of-the-cache",
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "a%b",
        "AWS_REGION": "eu-north-1",
        ".dockerconfigjson": '{"auths": {}}',
    }


def test_without_a_home_or_with_invalid_files_no_credentials_are_found(home: Path) -> None:
    assert found() == {}
    for path in home.rglob("*/*"):
        if path.is_file():
            path.write_bytes(b"\xff\0[")
    assert found(HOME=str(home)) == {}


@pytest.mark.parametrize(
    ("environ", "token"),
    [
        ({"HF_TOKEN": " t\n"}, "t"),
        ({"HUGGING_FACE_HUB_TOKEN": "old"}, "old"),
        ({"HF_TOKEN_PATH": "{home}/path", "HF_HOME": "{home}/hf"}, "of-the-path"),
        ({"HF_HOME": "{home}/hf"}, "of-the-hf-home"),
        ({"XDG_CACHE_HOME": "{home}/xdg"}, "of-xdg"),
        ({"HF_TOKEN": "t", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, None),
    ],
)
def test_the_hub_token_is_searched_for_where_huggingface_hub_does(
    home: Path, environ: dict[str, str], token: str | None
) -> None:
    files = {"path": "of-the-path", "hf/token": "of-the-hf-home", "xdg/huggingface/token": "of-xdg"}
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    environment = {name: value.format(home=home) for name, value in environ.items()}
    assert found(HOME=str(home), **environment).get("HF_TOKEN") == token


def test_aws_variables_take_precedence_over_the_chosen_profile(home: Path) -> None:
    keys = found(HOME=str(home), AWS_PROFILE="work")
    assert [keys[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")] == [
        "w", "s", "eu-west-1",
    ]  # fmt: skip
    assert "AWS_REGION" not in found(HOME=str(home), AWS_REGION="us-west-2")
    mine = found(HOME=str(home), AWS_ACCESS_KEY_ID="mine", AWS_SECRET_ACCESS_KEY="key")
    assert (mine["AWS_ACCESS_KEY_ID"], "AWS_REGION" in mine) == ("mine", False)
    assert "AWS_ACCESS_KEY_ID" not in found(HOME=str(home), AWS_PROFILE="nobody")
    other = home / "other"
    other.write_text("[default]\naws_access_key_id = there\n")
    assert found(AWS_SHARED_CREDENTIALS_FILE=str(other))["AWS_ACCESS_KEY_ID"] == "there"


def test_a_connection_string_has_key_endpoint_and_account() -> None:
    text = "DefaultEndpointsProtocol=http;AccountName=mine;AccountKey=a2V5==;BlobEndpoint=http://az.test:1/mine"
    environ = {"AZURE_STORAGE_CONNECTION_STRING": text}
    settings = settings_from_environ(environ)
    assert settings.azure_endpoint == "http://az.test:1"
    assert credentials_from_environ(environ, settings).values["AZURE_STORAGE_KEY"] == "a2V5=="
    sas = {
        "AZURE_STORAGE_CONNECTION_STRING": "BlobEndpoint=https://mine.blob.core.windows.net;SharedAccessSignature=s=1"
    }
    assert settings_from_environ(sas).azure_endpoint == ""
    assert found(**sas)["AZURE_STORAGE_SAS_TOKEN"] == "s=1"


def test_an_azure_account_key_is_sent_only_to_the_host_of_its_account() -> None:
    environ = {"AZURE_STORAGE_ACCOUNT": "mine", "AZURE_STORAGE_KEY": "k"}
    hosts = credentials_from_environ(environ, SourceSettings()).hosts
    assert "mine.blob.core.windows.net" in hosts
    assert "*.blob.core.windows.net" not in hosts


def test_common_variable_names_for_endpoints_and_ca_bundles_are_honoured(tmp_path: Path) -> None:
    assert settings_from_environ({"AWS_ENDPOINT_URL_S3": "http://a", "AWS_ENDPOINT_URL": "http://b"}).s3_endpoint == (
        "http://a"
    )
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    bundles = {name: str(tmp_path / name) for name in names}
    for bundle in bundles.values():
        Path(bundle).touch()
    assert settings_from_environ(bundles).ca_bundle == bundles["SSL_CERT_FILE"]
    del bundles["SSL_CERT_FILE"]
    assert settings_from_environ(bundles).ca_bundle == bundles["REQUESTS_CA_BUNDLE"]
