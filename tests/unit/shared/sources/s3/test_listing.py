"""Stores with invalid or refused listings."""

import time
from collections.abc import Callable

import pytest

from rig.scripted_http import Answer, ScriptedRequest, ScriptedServer, reply
from shared.errors import AuthDenied, LarderError, RateLimited, TooManyFiles, Unreachable
from shared.sources.listing_limits import in_time
from shared.sources.port import ANONYMOUS
from shared.sources.s3.source import S3Source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

Serve = Callable[[Answer], ScriptedServer]


def listing(*keys: str, size: str = "1", more: str = "") -> bytes:
    entries = "".join(f"<Contents><Key>{key}</Key><Size>{size}</Size></Contents>" for key in keys)
    body = f"<ListBucketResult><Name>bkt</Name>{more}{entries}</ListBucketResult>"
    return reply(200, body.encode(), Content_Type="application/xml")


def store(listed: bytes, described: bytes = b"") -> Answer:
    """Return a store without an object that has the URI's own name."""

    def answer(asked: ScriptedRequest) -> bytes:
        if "list-type" in asked.target:
            return listed
        return described if described and asked.target != "/bkt/m" else reply(404)

    return answer


def failure_of(server: ScriptedServer, read_timeout_s: float = 30) -> LarderError:
    settings = SourceSettings(s3_endpoint=server.url, read_timeout_s=read_timeout_s)
    source = S3Source(parse_uri("s3://bkt/m"), ANONYMOUS, settings)
    with pytest.raises(LarderError) as caught:
        source.resolve()
    source.close()
    return caught.value


def test_a_rate_limited_listing_reports_how_long_to_wait(serve: Serve) -> None:
    error = failure_of(serve(store(reply(503, b"<Error/>", Retry_After="7"))))
    assert isinstance(error, RateLimited)
    assert error.after_s == 7


@pytest.mark.parametrize("length", ["", "-1", "9" * 30])
def test_an_object_without_a_valid_length_is_reported(serve: Serve, length: str) -> None:
    assert isinstance(failure_of(serve(store(listing("m/a"), reply(200, Content_Length=length)))), Unreachable)


def test_an_object_with_an_endless_etag_is_reported(serve: Serve) -> None:
    """A listing keeps the tags of all objects; a store could fill the memory with them."""
    described = reply(200, b"x", ETag=f'"{"a" * 8000}"')
    error = failure_of(serve(store(listing("m/a"), described)))
    assert isinstance(error, Unreachable)
    assert "an ETag of 8002 characters for 'a'" in str(error)


LISTED = [
    listing(f"m/{'a' * 1024}"),
    reply(200, b"<html>", Content_Type="application/xml"),
    listing("m/a", size="junk"),
    listing("m/a", size="9" * 5000),
    listing(more="<Contents><Size>1</Size></Contents>"),
    listing(more="<Contents><Key>m/a</Key></Contents>"),
    listing("m/a", more="<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"),
    listing(more="<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"),
    reply(200, b"<ListBucketResult>", Content_Length="1000"),
]


@pytest.mark.parametrize("listed", LISTED)
def test_a_listing_that_is_invalid_is_reported(serve: Serve, listed: bytes) -> None:
    assert isinstance(failure_of(serve(store(listed, reply(200, b""))), read_timeout_s=0.5), Unreachable)


def test_an_endless_listing_is_abandoned(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = iter(range(10**9))

    def answer(asked: ScriptedRequest) -> bytes:
        if "list-type" not in asked.target:
            return reply(404)
        token = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{next(pages)}</NextContinuationToken>"
        return listing(more=token)

    monkeypatch.setattr("shared.sources.s3.source.LONGEST_LIST_S", 1.0)
    error = failure_of(serve(answer))
    assert isinstance(error, Unreachable)
    assert "takes too long" in str(error)


def test_objects_that_take_too_long_to_describe_are_abandoned(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[str] = []

    def answer(asked: ScriptedRequest) -> bytes:
        if "list-type" in asked.target:
            return listing(*(f"m/{n}" for n in range(1000)))
        if asked.target == "/bkt/m":
            return reply(404)
        described.append(asked.target)
        time.sleep(0.2)
        return reply(200)

    monkeypatch.setattr("shared.sources.s3.source.LONGEST_LIST_S", 6.0)  # describing all takes twice as long
    assert "takes too long" in str(failure_of(serve(answer)))
    assert 0 < len(described) < 1000


def test_listed_items_are_passed_on_until_the_deadline_and_then_raise() -> None:
    clock = iter([1.0, 2.9, 3.0])
    passed = in_time("abc", 3.0, "s3://bkt/m", lambda: next(clock))
    assert [next(passed), next(passed)] == ["a", "b"]
    with pytest.raises(Unreachable, match="listing s3://bkt/m takes too long"):
        next(passed)


def test_keys_that_would_fill_the_memory_are_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 keys of 1,024 characters, which take four bytes each in memory, are allowed one by one."""
    monkeypatch.setattr("shared.sources.listing_limits.MAX_CHARACTERS", 100)
    error = failure_of(serve(store(listing(*(f"m/{n}{'a' * 30}" for n in range(4))), reply(200, b""))))
    assert isinstance(error, TooManyFiles)
    assert "s3://bkt/m has names of more than 100 characters in all" in str(error)


def test_a_listing_page_with_too_many_tags_is_refused(serve: Serve) -> None:
    error = failure_of(serve(store(listing(more="<a/>" * 200_000))))
    assert "not an S3 listing" in str(error)


def test_listing_stops_after_the_first_rate_limited_object(serve: Serve) -> None:
    asked: list[str] = []

    def answer(request: ScriptedRequest) -> bytes:
        if "list-type" in request.target:
            return listing(*(f"m/{n}" for n in range(1000)))
        asked.append(request.target)
        return reply(503, Retry_After="7") if len(asked) > 1 else reply(404)

    assert isinstance(failure_of(serve(answer)), RateLimited)
    assert len(asked) < 100


EXPANDING = (
    '<!DOCTYPE l [<!ENTITY a "<Contents><Key>m/a</Key><Size>1</Size></Contents>">]>'
    "<ListBucketResult>" + "&a;" * 1000 + "</ListBucketResult>"
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_entities_of_a_listing_are_never_expanded(serve: Serve, encoding: str) -> None:
    listed = reply(200, EXPANDING.encode(encoding), Content_Type="application/xml")
    error = failure_of(serve(store(listed, reply(200, b"", Content_Length="1"))))
    assert isinstance(error, Unreachable)
    assert "the response is not an S3 listing" in str(error)


def test_an_html_error_page_of_a_proxy_does_not_hide_its_status(serve: Serve) -> None:
    page = reply(403, b"<!doctype html><html>no</html>", Content_Type="text/html")
    assert isinstance(failure_of(serve(store(page))), AuthDenied)
