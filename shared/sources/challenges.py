"""What a registry asks for in WWW-Authenticate."""

import re
from dataclasses import dataclass

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_PARAMETER = re.compile(r'([A-Za-z]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_SCHEME = re.compile(r"(?:^|,)\s*(bearer|basic)\b(?!\s*=)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Challenge:
    """`scheme` is bearer, basic, or empty where nothing that we know is asked for."""

    scheme: str = ""
    realm: str = ""
    service: str = ""


def parse_challenge(header: str) -> Challenge:
    """Return the first challenge that can be met: a token before a password."""
    masked = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), header)
    found = list(_SCHEME.finditer(masked))
    ends = [*(match.start() for match in found[1:]), len(header)]
    challenges = [
        _challenge(match[1].lower(), header[match.end() : end]) for match, end in zip(found, ends, strict=False)
    ]
    return min(challenges, key=lambda challenge: challenge.scheme != "bearer", default=Challenge())


def _challenge(scheme: str, parameters: str) -> Challenge:
    said = {m[1].lower(): m[3] or re.sub(r"\\(.)", r"\1", m[2] or "") for m in _PARAMETER.finditer(parameters)}
    return Challenge(scheme, said.get("realm", ""), said.get("service", ""))
