"""The parts of a diagnosis."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding."""

    STOP = "!"  # blocked until someone acts or something changes
    WAIT = "~"  # resolves by itself
    FACT = "."  # nothing is wrong


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation: its subject, a stable reason, a message, and a remedy."""

    severity: Severity
    about: str
    reason: str
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of `larder why`; `failed`: the object does not exist, or it or a model that it needs has failed."""

    title: str
    findings: tuple[Finding, ...]
    failed: bool = False

    @property
    def summary(self) -> str:
        """The first blocking finding, else the first that resolves by itself, else that there are no problems.

        For a finding about the object itself, only the reason is shown, because the title already names the object.
        """
        for severity in (Severity.STOP, Severity.WAIT):
            found = next((f for f in self.findings if f.severity == severity), None)
            if found is not None:
                return found.reason if found.about == self.title else f"{found.about}: {found.reason}"
        return "no problems found"


def not_found(title: str, message: str, remedy: str = "", reason: str = "NotFound") -> Diagnosis:
    """Return the diagnosis of an object that does not exist, or that the name does not identify."""
    return Diagnosis(title, (stop(title, reason, message, remedy),), failed=True)


def stop(about: str, reason: str, message: str, remedy: str = "") -> Finding:
    """Return a finding that someone may have to act on."""
    return Finding(Severity.STOP, about, reason, message, remedy)


def wait(about: str, reason: str, message: str, remedy: str = "") -> Finding:
    """Return a finding that resolves by itself."""
    return Finding(Severity.WAIT, about, reason, message, remedy)


def fact(about: str, reason: str, message: str) -> Finding:
    """Return a finding about something that is as it should be."""
    return Finding(Severity.FACT, about, reason, message)


def some(names: Iterable[str], most: int = 5) -> str:
    """Return the first names, and the number of others."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def ordered(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings, blocking ones first, then waiting ones, each in the given order."""
    return tuple(f for severity in Severity for f in findings if f.severity == severity)
