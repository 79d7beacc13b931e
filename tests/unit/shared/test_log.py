import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from shared.log import configure_logging


@pytest.fixture
def _configured() -> Iterator[None]:
    before = logging.root.handlers[:], logging.root.level
    configure_logging()
    yield
    structlog.reset_defaults()
    logging.root.handlers[:], logging.root.level = before[0], before[1]


@pytest.mark.usefixtures("_configured")
def test_a_traceback_shows_no_variables(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(token: str) -> None:
        raise ValueError(len(token))

    try:
        fails("s3" + "cret")
    except ValueError:
        structlog.get_logger().exception("broke", model="m")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["model"], line["level"]) == ("broke", "m", "error")
    assert line["exception"][0]["exc_type"] == "ValueError"
    assert "s3cret" not in str(line)
