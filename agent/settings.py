"""The agent's settings, from arguments or the environment (`LARDER_NODE_NAME` for `--node-name`)."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from agent.server.listen import check_address
from agent.store.floor import AUTO, parse_floor
from shared.kube.access import SERVICE_ACCOUNT
from shared.log import LogLevel

_PREFIX = re.compile(r"[a-z0-9][-a-z0-9.]{0,252}/[A-Za-z0-9]?[-A-Za-z0-9_.]{0,62}")


def _https(text: str) -> str:
    if not text.startswith("https://"):
        raise ValueError(f"{text!r} is not an https:// URL; credentials are never sent unencrypted")
    return text.rstrip("/")


def _floor(text: str) -> str:
    parse_floor(text)
    return text


def _prefixes(text: str) -> str:
    for prefix in text.split(","):
        if not _PREFIX.fullmatch(prefix) or prefix.partition("/")[0].endswith(("kubernetes.io", "k8s.io")):
            raise ValueError(
                f"{prefix!r} is not an allowed prefix; write DOMAIN/ or DOMAIN/WORD, for example example.com/gpu-, "
                "with a domain outside kubernetes.io and k8s.io"
            )
    return text


class AgentSettings(BaseSettings):
    """Runs on each node and keeps the models that its ModelNode lists in one directory of the node."""

    model_config = SettingsConfigDict(
        env_prefix="LARDER_", cli_kebab_case=True, cli_prog_name="larder-agent", cli_hide_none_type=True
    )

    node_name: str = Field(min_length=1, description="Name of the Node that this agent runs on.")
    root: Path = Field(description="Directory that holds the models; each agent needs its own.")
    kubeconfig: Path | None = Field(
        None, description="A kubeconfig file; by default, the pod's service account is used."
    )
    service_account: Path = Field(SERVICE_ACCOUNT, description="Directory of the pod's service account.")
    api_url: Annotated[str, AfterValidator(_https)] = Field(
        description="URL of the controller's API: https://HOST[:PORT]."
    )
    api_ca: Path | None = Field(None, description="CA certificates for that API; by default, the system's.")
    token_file: Path = Field(
        Path("/var/run/secrets/larder/token"), description="Token for the audience larder; read for each request."
    )
    listen: Annotated[str, AfterValidator(check_address)] = Field(
        "127.0.0.1:8081", description="Address of health checks, metrics and /v1/models, over plain HTTP."
    )
    downloads: int = Field(2, ge=1, le=64, description="Models to download at the same time.")
    connections: int = Field(4, ge=1, le=64, description="Connections per model.")
    floor: Annotated[str, AfterValidator(_floor)] = Field(
        AUTO,
        description="Disk space to keep free: bytes (50Gi), a share (15%), or auto: 1 GiB, and at least 15% if the "
        "store is on the node's root file system.",
    )
    file_list_bytes: int = Field(
        0, ge=0, description="Memory for lists of files, in bytes; 0 means half of the container's memory limit."
    )
    refuse_root_disk: bool = Field(default=False, description="Download nothing to the node's root file system.")
    scan_seconds: float = Field(
        10, gt=0, description="Seconds between checks of the disk, besides notifications from the kernel."
    )
    scrub_rate: int = Field(
        2 * 2**20, ge=0, description="Bytes per second of stored files to read again and verify; 0 turns this off."
    )
    scrub_pause_seconds: float = Field(86400, ge=0, description="Pause after a full pass over all files, in seconds.")
    node_seconds: float = Field(60, gt=0, description="Seconds between reads of the labels on the agent's Node.")
    startup_taint_priority: int = Field(
        0, description="Lowest priority of the models that a node with the startup taint waits for."
    )
    startup_taint_failure_seconds: float = Field(
        600,
        ge=0,
        description="Seconds that a model may fail before a node with the startup taint stops waiting for it.",
    )
    startup_taint_namespaced_seconds: float = Field(
        600, ge=0, description="Seconds that a node with the startup taint waits for namespaced models."
    )
    devices: bool = Field(
        default=False, description="Advertise devices on the agent's Node; needs the right to patch its status."
    )
    withdraw_devices: bool = Field(
        default=False, description="Advertise nothing, and remove what was advertised before."
    )
    device_seconds: float = Field(60, gt=0, description="Seconds between two polls of the device plugins.")
    device_timeout_seconds: float = Field(10, gt=0, description="Seconds that a device plugin may take to answer.")
    device_prefixes: Annotated[str, AfterValidator(_prefixes)] = Field(
        "larder.dev/",
        description="Allowed prefixes of extended resource names, separated by commas.",
    )
    example_devices: Path | None = Field(
        None, description="JSON file with example devices, to try device groups without hardware."
    )
    log_level: LogLevel = Field("info", description="Lowest level to log: debug, info, warning or error.")
    stop_seconds: float = Field(8, gt=0, description="Seconds that running downloads get to stop.")

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes that names of extended resources may have."""
        return tuple(self.device_prefixes.split(","))


def read_settings(arguments: Sequence[str]) -> AgentSettings:
    """Return the settings; arguments win over the environment. Exits with status 2 if they are invalid."""
    return AgentSettings(_cli_parse_args=list(arguments))  # type: ignore[call-arg]  # the required ones come from there
