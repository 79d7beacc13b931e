from pathlib import Path

import pytest
from pydantic import ValidationError

from agent.__main__ import main
from agent.server.listen import parse_address
from agent.settings import read_settings

NEEDED = ["--node-name", "n1", "--root", "/r", "--api-url", "https://c:8443/"]


@pytest.mark.parametrize("floor", ["auto", "15%", "50Gi", "1073741824"])
def test_the_floor_is_auto_a_percentage_or_bytes(floor: str) -> None:
    assert read_settings([*NEEDED, "--floor", floor]).floor == floor
    assert not read_settings(NEEDED).refuse_root_disk


def test_arguments_set_node_root_api_url_and_listen_address() -> None:
    settings = read_settings([*NEEDED, "--listen", "[::1]:9"])
    assert (settings.node_name, settings.root, settings.api_url) == ("n1", Path("/r"), "https://c:8443")
    assert parse_address(settings.listen) == ("::1", 9)


def test_arguments_take_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LARDER_NODE_NAME", "from-env")
    monkeypatch.setenv("LARDER_DOWNLOADS", "7")
    settings = read_settings(NEEDED)
    assert (settings.node_name, settings.downloads) == ("n1", 7)
    assert read_settings(NEEDED[2:]).node_name == "from-env"


def test_devices_are_disabled_by_default_with_the_prefix_of_larder() -> None:
    settings = read_settings(NEEDED)
    assert (settings.devices, settings.withdraw_devices, settings.prefixes) == (False, False, ("larder.dev/",))
    settings = read_settings([*NEEDED, "--devices", "true", "--device-prefixes", "larder.dev/,example.com/gpu-"])
    assert (settings.devices, settings.prefixes) == (True, ("larder.dev/", "example.com/gpu-"))


@pytest.mark.parametrize(
    "prefixes", ["", "cpu", "/", "kubernetes.io/", "x.k8s.io/", "larder.dev/,", "Larder.dev/", "a/b/"]
)
def test_a_device_prefix_must_be_a_domain_outside_kubernetes(prefixes: str) -> None:
    with pytest.raises(ValidationError, match=r"is not an allowed prefix; .* outside kubernetes.io and k8s.io"):
        read_settings([*NEEDED, "--device-prefixes", prefixes])


@pytest.mark.parametrize(
    "wrong",
    [["--listen", "8081"], ["--api-url", "http://c"], ["--downloads", "0"], ["--node-name", ""], ["--floor", "half"]],
)
def test_invalid_settings_are_refused(wrong: list[str]) -> None:
    with pytest.raises(ValidationError):
        read_settings([*NEEDED, *wrong])


def test_an_invalid_argument_is_reported_and_ends_the_program_with_code_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NEEDED, "--listen", "8081"]) == 2
    assert "HOST:PORT" in capsys.readouterr().err


def test_an_invalid_variable_of_the_sources_ends_the_program_with_code_two(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "hub.test")
    assert main(NEEDED) == 2
    assert capsys.readouterr().err.startswith("larder-agent: HF_ENDPOINT: 'hub.test' is not an endpoint; ")
