import pytest

from shared.errors import InvalidURI
from shared.sources.port import ANONYMOUS
from shared.sources.registry import default_hosts, open_source
from shared.sources.settings import SourceSettings, credentials_from_environ, settings_from_environ
from shared.uri import parse_uri


def test_an_empty_environment_means_the_public_places() -> None:
    settings = settings_from_environ({})
    assert settings == SourceSettings()
    assert default_hosts("hf", settings) == ("huggingface.co",)
    assert default_hosts("s3", settings) == ("*.amazonaws.com", "*.amazonaws.com.cn")
    assert default_hosts("https", settings) == ()


def test_reads_the_usual_variables() -> None:
    settings = settings_from_environ(
        {
            "HF_ENDPOINT": "http://hub.test:81/",
            "AWS_ENDPOINT_URL": "https://s3.test/",
            "AWS_DEFAULT_REGION": "eu-west-1",
            "LARDER_ALLOW_ADDRESSES": "10.0.0.0/8, 127.0.0.1",
            "SSL_CERT_FILE": "/ca.pem",
        }
    )
    assert settings == SourceSettings(
        "http://hub.test:81", "https://s3.test", "eu-west-1", ("10.0.0.0/8", "127.0.0.1"), "/ca.pem"
    )
    assert default_hosts("hf", settings) == ("hub.test",)
    assert default_hosts("s3", settings) == ("s3.test",)
    assert settings_from_environ({"AWS_REGION": "a", "AWS_DEFAULT_REGION": "b"}).s3_region == "a"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_ENDPOINT", "hub.test"),
        ("HF_ENDPOINT", "https://user:password@hub.test"),
        ("AWS_ENDPOINT_URL", "ftp://s3.test"),
        ("LARDER_ALLOW_ADDRESSES", "10.0.0.0/33"),
        ("LARDER_ALLOW_ADDRESSES", "hub.test"),
    ],
)
def test_a_wrong_value_names_its_variable_and_shows_no_password(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=name) as caught:
        settings_from_environ({name: value})
    assert "password" not in str(caught.value)


def test_a_shell_s_own_credentials_are_for_the_hub_and_the_store() -> None:
    found = credentials_from_environ({"HF_TOKEN": "t", "AWS_SESSION_TOKEN": "", "HOME": "/x"}, SourceSettings())
    assert dict(found.values) == {"HF_TOKEN": "t"}
    assert found.hosts == ("huggingface.co", "*.amazonaws.com", "*.amazonaws.com.cn")
    assert "'t'" not in repr(found)


def test_a_scheme_that_nobody_fetches_is_named() -> None:
    with pytest.raises(InvalidURI, match="no source fetches pvc://"):
        open_source(parse_uri("pvc://ns/claim/model"), ANONYMOUS, SourceSettings())
