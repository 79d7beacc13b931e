import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

import msgspec
import pytest
from aiohttp import web

from shared.kube.errors import Busy, Conflict, KubeError, Malformed, Refused, Unreachable
from shared.kube.transport import MERGE_PATCH, Kube

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[Kube]]


async def echo(request: web.Request) -> web.StreamResponse:
    return web.json_response(
        {
            "method": request.method,
            "path": request.path_qs,
            "type": request.headers.get("Content-Type"),
            "token": request.headers.get("Authorization"),
            "agent": request.headers.get("User-Agent"),
            "body": await request.text(),
        }
    )


class Spec(msgspec.Struct, rename="camel"):
    node_name: str


async def test_sends_query_body_and_content_type_with_the_credentials(serve: Serve) -> None:
    kube = await serve(echo)
    seen = json.loads(await kube.request("PATCH", "/x/y", {"a": "b=c&d"}, {"n": None}, MERGE_PATCH))
    assert (seen["method"], seen["path"], seen["type"]) == ("PATCH", "/x/y?a=b%3Dc%26d", MERGE_PATCH)
    assert json.loads(seen["body"]) == {"n": None}
    assert (seen["token"], seen["agent"]) == ("Bearer secret", "larder")


async def test_a_body_may_be_a_struct_or_empty(serve: Serve) -> None:
    kube = await serve(echo)
    struct = json.loads(await kube.request("POST", "/x", body=Spec("n1")))
    empty = json.loads(await kube.request("PATCH", "/x", body={}, content_type=MERGE_PATCH))
    assert (struct["body"], empty["body"]) == ('{"nodeName":"n1"}', "{}")


@pytest.mark.parametrize(("code", "kind"), [(409, Conflict), (403, Refused), (500, Unreachable), (503, Busy)])
async def test_each_status_code_raises_its_error(serve: Serve, code: int, kind: type[KubeError]) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.json_response({"code": code, "reason": "Why", "message": "because"}, status=code)

    kube = await serve(refuse)
    with pytest.raises(kind, match=f"{code} Why: because"):
        await kube.request("GET", "/x")
    with pytest.raises(kind, match=f"{code} Why: because"):
        async with kube.watch("/x", {}, 1):
            pass


async def test_a_truncated_answer_raises_unreachable(serve: Serve) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"{")
        abort(request)
        return response

    kube = await serve(cut)
    with pytest.raises(Unreachable):
        await kube.request("GET", "/x")


async def test_a_silent_server_raises_unreachable(serve: Serve) -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(3600)
        raise web.HTTPNoContent

    kube = await serve(hang)
    with pytest.raises(Unreachable, match="the request timed out"):
        await kube.request("GET", "/x", timeout_s=0.1)


async def test_a_refused_connection_raises_unreachable(serve: Serve, unused_tcp_port: int) -> None:
    kube = await serve(echo)
    nobody = replace(kube, access=replace(kube.access, server=f"http://127.0.0.1:{unused_tcp_port}"))
    with pytest.raises(Unreachable, match="connection refused"):
        await nobody.request("GET", "/x")


async def lines_of(kube: Kube, idle_s: float = 5) -> list[bytes]:
    async with kube.watch("/x", {"watch": "true"}, idle_s) as lines:
        return [line async for line in lines]


async def test_a_watch_gives_lines_of_any_length(serve: Serve) -> None:
    expected = [b"a" * size for size in (1, 200_000, 6_000_000, 3)]

    async def send(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"".join(line + b"\n" for line in expected) + b"unfinished")
        return response

    assert await lines_of(await serve(send)) == expected


async def test_an_endless_line_is_malformed(serve: Serve) -> None:
    async def send(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"a" * 65_536)

    kube = await serve(send)
    small = replace(kube, line_limit_bytes=1_000_000)
    with pytest.raises(Malformed):
        await lines_of(small)


async def test_a_watch_that_falls_silent_raises_unreachable(serve: Serve) -> None:
    async def send(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await asyncio.sleep(3600)
        return response

    with pytest.raises(Unreachable, match="the request timed out"):
        await lines_of(await serve(send), idle_s=0.1)


async def test_a_watch_that_is_cut_raises_unreachable(serve: Serve) -> None:
    async def send(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\ntw")
        await asyncio.sleep(0.01)
        abort(request)
        return response

    with pytest.raises(Unreachable):
        await lines_of(await serve(send))


def abort(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()
