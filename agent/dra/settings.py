"""The driver's settings, from arguments or the environment (`LARDER_NODE_NAME` for `--node-name`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from agent.dra.allow_list import AllowList, check_patterns
from agent.server.listen import check_address
from shared.decode_errors import DECODE_ERRORS
from shared.kube.access import SERVICE_ACCOUNT
from shared.log import LogLevel


def parse_allowed(text: str) -> AllowList:
    """Return an allow-list. Raises ValueError."""
    try:
        allowed = msgspec.json.decode(text or "{}", type=AllowList)
    except DECODE_ERRORS as error:
        raise ValueError(f"not an allow-list: {error}") from error
    check_patterns(allowed)
    return allowed


def _checked(text: str) -> str:
    parse_allowed(text)
    return text


def _address_or_none(text: str) -> str:
    return check_address(text) if text else ""


class DraSettings(BaseSettings):
    """Lets pods claim the models on this node as devices, through Dynamic Resource Allocation."""

    model_config = SettingsConfigDict(
        env_prefix="LARDER_", cli_kebab_case=True, cli_prog_name="larder dra", cli_hide_none_type=True
    )

    node_name: str = Field(min_length=1, description="Name of the Node that this driver runs on.")
    root: Path = Field(description="Directory that holds the models, at the same path as on the node.")
    kubeconfig: Path | None = Field(
        None, description="A kubeconfig file; by default, the pod's service account is used."
    )
    service_account: Path = Field(SERVICE_ACCOUNT, description="Directory of the pod's service account.")
    kubelet: Path = Field(Path("/var/lib/kubelet"), description="Directory of kubelet.")
    cdi: Path = Field(Path("/var/run/cdi"), description="Directory of the CDI files that the container runtime reads.")
    allow: Annotated[str, AfterValidator(_checked)] = Field(
        "{}",
        description="What device plugins may add to containers, as JSON: lists of patterns in mounts, devices and env.",
    )
    example_devices: Path | None = Field(
        None,
        description="JSON file with the agent's example devices; each container gets the names of the devices "
        "allocated to it.",
    )
    device_timeout_seconds: float = Field(10, gt=0, description="Seconds that a device plugin may take to answer.")
    listen: Annotated[str, AfterValidator(_address_or_none)] = Field(
        "", description="Address of health checks and metrics, over plain HTTP; by default, nothing is served."
    )
    scan_seconds: float = Field(
        15, gt=0, description="Seconds between checks of the disk; a change of the ModelNode also triggers one."
    )
    log_level: LogLevel = Field("info", description="Lowest level to log: debug, info, warning or error.")


def read_settings(arguments: Sequence[str]) -> DraSettings:
    """Return the settings; arguments win over the environment. Exits with status 2 if they are invalid."""
    return DraSettings(_cli_parse_args=list(arguments))  # type: ignore[call-arg]  # the required ones come from there
