"""The samples of a scrape."""

import re

from rig import plain_http

_SAMPLE = re.compile(r"^([a-z_]+(?:\{.*\})?) (\S+)$", re.MULTILINE)


def samples(text: str) -> dict[str, float]:
    """Return every sample of a scrape by its name and labels, as written."""
    return {name: float(value) for name, value in _SAMPLE.findall(text)}


def scrape(url: str) -> dict[str, float]:
    """Return every sample of a running program."""
    return samples(plain_http.get(f"{url}/metrics", timeout_s=30).raise_for_status().text)
