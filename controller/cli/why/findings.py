"""The parts of a diagnosis."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding."""

    STOP = "!"  # blocked until somebody or something acts
    WAIT = "~"  # resolves by itself
    FACT = "."  # as it should be


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation: its subject, a stable reason, a message, and what to do."""

    weight: Severity
    about: str
    reason: str
    words: str
    do: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer of `larder why`; `failed`: the object does not exist, or its model or one it needs has failed."""

    title: str
    findings: tuple[Finding, ...]
    failed: bool = False

    @property
    def verdict(self) -> str:
        """The first finding that blocks; else what it waits for; else that nothing is in the way."""
        for weight in (Severity.STOP, Severity.WAIT):
            found = next((f for f in self.findings if f.weight == weight), None)
            if found is not None:
                return f"{found.about}: {found.reason}"
        return "nothing is in its way"


def not_found(title: str, words: str, do: str = "") -> Diagnosis:
    """Return the diagnosis of an object that does not exist."""
    return Diagnosis(title, (stop(title, "NotFound", words, do),), failed=True)


def stop(about: str, reason: str, words: str, do: str = "") -> Finding:
    """Return a finding that may need somebody to act."""
    return Finding(Severity.STOP, about, reason, words, do)


def wait(about: str, reason: str, words: str, do: str = "") -> Finding:
    """Return a finding that resolves by itself."""
    return Finding(Severity.WAIT, about, reason, words, do)


def fact(about: str, reason: str, words: str) -> Finding:
    """Return a finding about something that is as it should be."""
    return Finding(Severity.FACT, about, reason, words)


def some(names: Iterable[str], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def ordered(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings, blocking ones first, then waiting ones, each in the given order."""
    return tuple(f for weight in Severity for f in findings if f.weight == weight)
