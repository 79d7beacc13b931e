"""Untrusted XML with declarations is refused, and no parser gets XML that was not checked."""

import ast
from pathlib import Path

import pytest

from shared.sources.plain_xml import MAX_TAGS, plain_xml

ROOT = Path(__file__).parents[4]
BOMB = '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><l>&b;</l>'
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "cp037")
# The modules that parse XML, and their parsers; each passes only the result of `plain_xml` to its parser.
PARSERS = {"xml", "lxml", "defusedxml", "xmltodict", "boto3", "botocore"}
READERS = {"shared/sources/azure/listing.py", "shared/sources/s3/listing.py"}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_entities_are_refused_in_every_encoding(encoding: str) -> None:
    with pytest.raises(ValueError, match=r"not UTF-8|declares a document type"):
        plain_xml(BOMB.encode(encoding))


@pytest.mark.parametrize(
    "body",
    [
        b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>',
        b"<x><!ENTITY a 'b'></x>",
        b"<x/><!-- words -->",
        b"<<![CDATA[!DOCTYPE x>",
        b"<a>" * (MAX_TAGS + 1),
        b"<a " + b"b='' " * (MAX_TAGS + 1) + b"/>",
    ],
)
def test_xml_with_declarations_comments_or_too_many_tags_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="it "):
        plain_xml(body)


@pytest.mark.parametrize("body", [b"", b"<a/>", b"\xef\xbb\xbf<a/>", "<a>é</a>".encode(), b"<a><![CDATA[<b>]]></a>"])
def test_xml_of_stores_is_read(body: bytes) -> None:
    assert plain_xml(body) == body.decode("utf-8-sig")


def test_only_known_modules_parse_xml_and_each_uses_plain_xml() -> None:
    found = {}
    for package in ("agent", "controller", "shared"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            imported = set(_imports(ast.parse(text))) if any(parser in text for parser in PARSERS) else set()
            if PARSERS & {name.split(".")[0] for name in imported}:
                found[str(path.relative_to(ROOT))] = "shared.sources.plain_xml" in imported
    assert found == dict.fromkeys(READERS, True)


def _imports(tree: ast.Module) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return names
