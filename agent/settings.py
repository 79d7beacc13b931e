"""The agent's settings, from arguments or the environment (`LARDER_NODE_NAME` for `--node-name`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from agent.store.floor import AUTO, parse_floor
from shared.kube.credentials import SERVICE_ACCOUNT
from shared.log import LogLevel


def _host_and_port(text: str) -> str:
    host, separator, port = text.rpartition(":")
    if not separator or not host or not port.isdecimal():
        raise ValueError(f"{text!r} is not HOST:PORT; write for example 127.0.0.1:8081")
    return text


def _https(text: str) -> str:
    if not text.startswith("https://"):
        raise ValueError(f"{text!r} is not an https:// URL; credentials never travel in the clear")
    return text.rstrip("/")


def _floor(text: str) -> str:
    parse_floor(text)
    return text


class AgentSettings(BaseSettings):
    """The agent of one node: keeps the models that its ModelNode names in one directory."""

    model_config = SettingsConfigDict(
        env_prefix="LARDER_", cli_kebab_case=True, cli_prog_name="larder-agent", cli_hide_none_type=True
    )

    node_name: str = Field(min_length=1, description="The Node that this agent serves.")
    root: Path = Field(description="The directory that holds the models; one agent a directory.")
    kubeconfig: Path | None = Field(None, description="Absent: the service account of the pod.")
    service_account: Path = Field(SERVICE_ACCOUNT, description="Where the pod's service account is mounted.")
    api_url: Annotated[str, AfterValidator(_https)] = Field(description="The controller's API, https://HOST[:PORT].")
    api_ca: Path | None = Field(None, description="The CA of that API; absent: those of the system.")
    token_file: Path = Field(
        Path("/var/run/secrets/larder/token"), description="A token for the audience larder; read anew for each call."
    )
    listen: Annotated[str, AfterValidator(_host_and_port)] = Field(
        "127.0.0.1:8081", description="Where health, metrics and /v1/models are served."
    )
    downloads: int = Field(2, ge=1, le=64, description="How many models are fetched at one time.")
    connections: int = Field(4, ge=1, le=64, description="How many connections one model is fetched over.")
    floor: Annotated[str, AfterValidator(_floor)] = Field(
        AUTO,
        description="What of the disk is never filled: bytes (50Gi), a share (15%), or auto: 1 GiB, and at least 15% "
        "where the store lies on the node's root file system.",
    )
    refuse_root_disk: bool = Field(default=False, description="Fetch nothing to the node's root file system.")
    scan_seconds: float = Field(
        10, gt=0, description="How often the disk is looked at, beside what the kernel tells of changes."
    )
    scrub_rate: int = Field(
        2 * 2**20, ge=0, description="Bytes a second that are read again at rest and checked (0: none)."
    )
    scrub_pause_seconds: float = Field(86400, ge=0, description="How long the scrub rests after it has read all files.")
    node_seconds: float = Field(60, gt=0, description="How often the labels of the own Node are read.")
    log_level: LogLevel = Field("info", description="The least level that is logged: debug, info, warning or error.")
    stop_seconds: float = Field(8, gt=0, description="How long running downloads may take to stop.")

    @property
    def listen_address(self) -> tuple[str, int]:
        """The host and port to listen on."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)


def read_settings(arguments: Sequence[str]) -> AgentSettings:
    """Return the settings; arguments win over the environment. Exits with status 2 if they are invalid."""
    return AgentSettings(_cli_parse_args=list(arguments))  # type: ignore[call-arg]  # the required ones come from there
