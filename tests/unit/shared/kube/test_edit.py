import json
from collections.abc import Awaitable, Callable
from itertools import chain, repeat

import pytest
from aiohttp import web

from shared.json_object import Json
from shared.kube.edit import create_if_missing, delete_if_present, update
from shared.kube.errors import Busy, Conflict, Refused, Unreachable
from shared.kube.transport import Kube
from tests.builders.api_server import status_response

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[Kube]]


class Scripted:
    """One object whose PUTs are answered by the codes of a script, and whose clock is the sum of the waits."""

    def __init__(self, *codes: int) -> None:
        self.codes = chain(codes, repeat(codes[-1]))
        self.bodies: list[Json] = []
        self.waited_s = 0.0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response({"metadata": {"resourceVersion": str(len(self.bodies))}, "kept": 1})
        self.bodies.append(json.loads(await request.text() or "{}"))
        return status_response(request, next(self.codes))

    async def sleep(self, seconds: float) -> None:
        self.waited_s += seconds

    async def run(self, serve: Serve, change: Callable[[Json], Json | None]) -> Json:
        kube = await serve(self.answer)
        return await update(kube, "/x", change, sleep=self.sleep, clock=lambda: self.waited_s)


def mark(found: Json) -> Json:
    return found | {"marked": True}


async def test_an_update_sends_the_version_it_read_and_keeps_unknown_fields(serve: Serve) -> None:
    script = Scripted(409, 429, 200)
    await script.run(serve, mark)
    assert script.bodies == [{"metadata": {"resourceVersion": str(n)}, "kept": 1, "marked": True} for n in range(3)]
    assert script.waited_s >= 1


async def test_no_change_writes_nothing(serve: Serve) -> None:
    script = Scripted(200)
    assert (await script.run(serve, lambda _: None))["kept"] == 1
    assert not script.bodies


@pytest.mark.parametrize(("code", "kind"), [(409, Conflict), (429, Busy)])
async def test_an_update_that_meets_only_conflicts_or_a_busy_server_is_abandoned(
    serve: Serve, code: int, kind: type[Exception]
) -> None:
    script = Scripted(code)
    with pytest.raises(kind):
        await script.run(serve, mark)
    assert 5 < script.waited_s <= 10
    assert len(script.bodies) < 60


@pytest.mark.parametrize(("code", "kind"), [(500, Unreachable), (403, Refused)])
async def test_a_failed_or_refused_update_is_not_repeated(serve: Serve, code: int, kind: type[Exception]) -> None:
    script = Scripted(code)
    with pytest.raises(kind):
        await script.run(serve, mark)
    assert len(script.bodies) == 1


@pytest.mark.parametrize(("code", "made"), [(201, True), (409, False)])
async def test_create_if_missing_returns_whether_it_created_the_object(serve: Serve, code: int, *, made: bool) -> None:
    assert await create_if_missing(await serve(Scripted(code).answer), "/x", {}) is made


@pytest.mark.parametrize(("code", "asked"), [(200, True), (404, False), (409, False)])
async def test_delete_if_present_deletes_only_the_object_with_that_uid(serve: Serve, code: int, *, asked: bool) -> None:
    script = Scripted(code)
    assert await delete_if_present(await serve(script.answer), "/x", uid="u1") is asked
    assert script.bodies == [{"preconditions": {"uid": "u1"}}]


async def test_a_conflict_about_another_object_does_not_count_as_created(serve: Serve) -> None:
    message = 'Operation cannot be fulfilled on resourcequotas "team": the object has been modified'

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response({"code": 409, "reason": "Conflict", "message": message}, status=409)

    with pytest.raises(Conflict):
        await create_if_missing(await serve(answer), "/x", {})
