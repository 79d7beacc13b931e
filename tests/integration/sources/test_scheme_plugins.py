import os
import subprocess
import sys
from pathlib import Path

import pytest

ACT = """
import sys
from shared.errors import LarderError
from shared.sources.port import ANONYMOUS
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

for text in sys.argv[1:]:
    try:
        uri = parse_uri(text)
        loaded = {name for name in sys.modules if name.startswith("plugin_")}
        print(uri, sorted(loaded), open_source(uri, ANONYMOUS, SourceSettings()))
    except LarderError as error:
        print(error.reason, error)
"""


def install(site: Path, name: str, points: str, source: str) -> None:
    (site / f"plugin_{name}.py").write_text(source)
    facts = site / f"plugin_{name}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: plugin-{name}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[larder.sources]\n{points}\n")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    install(
        tmp_path,
        "good",
        "swift = plugin_good:open_swift\nhf = plugin_good:open_swift\nUPPER = plugin_good:open_swift",
        "def open_swift(uri, credentials, settings):\n    return f'{uri.scheme} serves {uri.rest}'\n",
    )
    install(tmp_path, "bad", "broken = plugin_bad:open_it\nabsent = plugin_bad_not:x", "raise OSError('no libfoo')\n")
    return tmp_path


def run(site: Path, *uris: str) -> list[str]:
    """Open these URIs in a separate process, and return one line for each."""
    environ = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run(  # noqa: S603 - our own text
        [sys.executable, "-c", ACT, *uris], env=environ, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_a_plugin_serves_its_scheme_and_is_loaded_when_it_is_used(site: Path) -> None:
    assert run(site, "swift://container/m/") == ["swift://container/m [] swift serves container/m"]


def test_a_plugin_cannot_replace_a_built_in_scheme(site: Path) -> None:
    [opened] = run(site, "hf://org/m")
    assert "HubSource" in opened


@pytest.mark.parametrize(
    ("uri", "phrase"),
    [
        ("broken://x", "plugin_bad:open_it of the distribution plugin-bad) cannot be loaded: OSError: no libfoo"),
        ("absent://x", "plugin_bad_not"),
        ("swift://", "no installed source serves swift://"),
        ("swift://a/../b", "has a . or .."),
        ("UPPER://x", "no installed source serves UPPER://"),
        ("other://x", "pvc://, "),
    ],
)
def test_a_broken_plugin_is_named_and_affects_only_its_scheme(site: Path, uri: str, phrase: str) -> None:
    refused, opened = run(site, uri, "s3://bucket/m")
    assert refused.startswith("InvalidURI ")
    assert phrase in refused
    assert "S3Source" in opened
