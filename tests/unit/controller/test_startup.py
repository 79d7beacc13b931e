"""What the controller reports about invalid settings before it starts."""

import asyncio
from pathlib import Path

import pytest

from controller.__main__ import run
from controller.settings import ControllerSettings


def test_an_invalid_variable_of_the_sources_ends_the_program_with_one_line(tmp_path: Path) -> None:
    settings = ControllerSettings(certificate=tmp_path / "tls.crt", private_key=tmp_path / "tls.key")
    with pytest.raises(SystemExit, match=r"^InvalidSettings: HF_ENDPOINT: 'hub\.test' is not an endpoint; write http"):
        asyncio.run(run(settings, {"HF_ENDPOINT": "hub.test"}))
