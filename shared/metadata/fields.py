"""Typed access to a parsed JSON object; a wrong type is an error that names the file and the field."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from shared.metadata.errors import MetadataMalformed
from shared.metadata.json_text import parse_json

LARGEST = 2**40


@dataclass(frozen=True, slots=True)
class Fields:
    """An object in a file; `at` is its path in the file with a trailing dot, empty for the root."""

    file: str
    values: Mapping[str, Any]
    at: str = ""

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def integer(self, *names: str) -> int | None:
        """Return the first of these that is present, from 0 to 2^40; lists (one number per layer) are ignored."""
        for name in names:
            value = self.values.get(name)
            if value is None or isinstance(value, list):
                continue
            if isinstance(value, float) and isfinite(value) and value.is_integer():
                value = int(value)
            if not isinstance(value, int) or isinstance(value, bool):
                raise self.wrong(name, "a whole number")
            if not -1 <= value <= LARGEST:
                raise MetadataMalformed(self.file, self.at + name, f"is {_short(value)}, not from 0 to {LARGEST}")
            if value >= 0:
                return value
        return None

    def number(self, name: str) -> float | None:
        """Return a number that is 0 or whose absolute value is from 2^-40 to 2^40."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, "a number")
        try:
            number = float(value)
        except OverflowError as error:
            raise self.wrong(name, "a finite number") from error
        if not isfinite(number) or (number and not 1 / LARGEST <= abs(number) <= LARGEST):
            raise self.wrong(name, f"a number with an absolute value from 1/{LARGEST} to {LARGEST}")
        return number

    def text(self, *names: str) -> str | None:
        """Return the first of these that is present and not empty."""
        for name in names:
            value = self.values.get(name)
            if value is None or value == "":
                continue
            if not isinstance(value, str):
                raise self.wrong(name, "a string")
            self._check_text(name, value)
            return value
        return None

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings."""
        value = self.values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(name, "a list of strings")
        for item in value:
            self._check_text(name, item)
        return tuple(value)

    def integers(self, name: str) -> tuple[int, ...]:
        """Return a list of integers."""
        value = self.values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(i, int) and not isinstance(i, bool) for i in value):
            raise self.wrong(name, "a list of whole numbers")
        return tuple(value)

    def inner(self, *names: str) -> "Fields | None":
        """Return the first of these that is an object."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if not isinstance(value, dict):
                raise self.wrong(name, "an object")
            return Fields(self.file, value, f"{self.at}{name}.")
        return None

    def wrong(self, name: str, wanted: str) -> MetadataMalformed:
        """Return the error for a field of another type."""
        return MetadataMalformed(self.file, self.at + name, f"is {_short(self.values.get(name))}, not {wanted}")

    def _check_text(self, name: str, value: str) -> None:
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise self.wrong(name, "valid Unicode") from error


def parse_fields(file: str, body: bytes) -> Fields:
    """Parse the object in a JSON file. Raises MetadataMalformed, MetadataOversized."""
    value = parse_json(file, body)
    if not isinstance(value, dict):
        raise MetadataMalformed(file, "", "is not a JSON object")
    return Fields(file, value)


def _short(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) > 10**18:
        return "a number of more than 18 digits"
    return ascii(value[:40] if isinstance(value, str) else value)
