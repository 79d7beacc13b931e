"""The deletion of download Jobs."""

from pathlib import Path

from aiohttp import web

from controller.jobs.live_reads import delete_job
from shared.json_object import Json
from tests.builders.api_server import connected
from tests.builders.cluster import meta


async def test_a_job_of_the_same_name_with_another_uid_is_not_deleted(tmp_path: Path) -> None:
    live = {"name": "model-download-m", "uid": "theirs"}
    asked = list[Json]()

    async def serve(request: web.Request) -> web.Response:
        body = await request.json()
        asked.append(body)
        if body["preconditions"]["uid"] != live["uid"]:
            return web.json_response({"code": 409, "reason": "Conflict", "message": "uid"}, status=409)
        live.clear()
        return web.json_response({})

    async with connected(serve, tmp_path, farewell_s=60) as kube:
        await delete_job(kube, meta("model-download-m", namespace="team", uid="ours"))
        assert live
        await delete_job(kube, meta("model-download-m", namespace="team", uid="theirs"))
    assert not live
    assert {body["propagationPolicy"] for body in asked} == {"Foreground"}
