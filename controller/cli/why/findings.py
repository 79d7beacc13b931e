"""What an answer consists of."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Weight(StrEnum):
    """How much a finding matters."""

    STOP = "!"  # it goes on only when somebody or something acts
    WAIT = "~"  # it goes on by itself
    FACT = "."  # as it should be


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was seen: about what, in a stable word and in words, and what to do."""

    weight: Weight
    about: str
    reason: str
    words: str
    do: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What `larder why` says of one thing; `failed`: it is not there, or a model that it is or needs failed."""

    title: str
    findings: tuple[Finding, ...]
    failed: bool = False

    @property
    def verdict(self) -> str:
        """The first thing that stops it; else what it waits for; else that nothing is in the way."""
        for weight in (Weight.STOP, Weight.WAIT):
            found = next((f for f in self.findings if f.weight == weight), None)
            if found is not None:
                return f"{found.about}: {found.reason}"
        return "nothing is in its way"


def not_found(title: str, words: str, do: str = "") -> Diagnosis:
    """Return the answer about something that is not there."""
    return Diagnosis(title, (stop(title, "NotFound", words, do),), failed=True)


def stop(about: str, reason: str, words: str, do: str = "") -> Finding:
    """Return a finding that somebody may have to act on."""
    return Finding(Weight.STOP, about, reason, words, do)


def wait(about: str, reason: str, words: str, do: str = "") -> Finding:
    """Return a finding that passes by itself."""
    return Finding(Weight.WAIT, about, reason, words, do)


def fact(about: str, reason: str, words: str) -> Finding:
    """Return a finding of what is as it should be."""
    return Finding(Weight.FACT, about, reason, words)


def some(names: Iterable[str], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def ordered(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return them with what stops first, then what waits, each in the order given."""
    return tuple(f for weight in Weight for f in findings if f.weight == weight)
