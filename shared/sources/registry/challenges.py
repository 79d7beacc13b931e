"""Parses the WWW-Authenticate header of registries."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# Matches any character, so a search never restarts inside what was read. A quoted string may lack its closing quote.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?+|[^\s",=]++|[,=]|\s++', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SCHEMES = ("bearer", "basic")


@dataclass(frozen=True, slots=True)
class Challenge:
    """`scheme` is bearer or basic, or empty if the registry asks for neither."""

    scheme: str = ""
    realm: str = ""
    service: str = ""


@dataclass(slots=True)
class _Offer:
    scheme: str
    parameters: dict[str, str] = field(default_factory=dict)


def parse_challenge(header: str) -> Challenge:
    """Return the first supported challenge, preferring a token to a password."""
    known = [offer for offer in _offers(header) if offer.scheme in _SCHEMES]
    best = min(known, key=lambda offer: offer.scheme != "bearer", default=None)
    if best is None:
        return Challenge()
    return Challenge(best.scheme, best.parameters.get("realm", ""), best.parameters.get("service", ""))


def _offers(header: str) -> Iterator[_Offer]:
    """Yield each scheme with its parameters; a scheme is a word at the start or after a comma, without a value."""
    tokens = [token for token in _TOKEN.findall(header) if not token.isspace()]
    offer, at, first = _Offer(""), 0, True
    while at < len(tokens):
        word, is_named = tokens[at], tokens[at + 1 : at + 2] == ["="]
        if is_named and at + 2 < len(tokens):
            offer.parameters[word.lower()] = _unquoted(tokens[at + 2])
            at += 2
        elif first and word != ",":
            yield offer
            offer = _Offer(word.lower())
        first = word == ","
        at += 1
    yield offer


def _unquoted(token: str) -> str:
    return _ESCAPED.sub(r"\1", token[1:].removesuffix('"')) if token.startswith('"') else token
