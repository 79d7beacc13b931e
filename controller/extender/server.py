"""The endpoints for kube-scheduler; a caller that has not authenticated is rejected before its body is read.

Bodies and concurrency are bounded. Errors are returned in the extender API's own fields, so that they reach the events
of the pod. This is a separate ASGI application because the scheduler waits for one answer after another, and FastAPI's
layers take longer than most of the answers.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from controller.admission.callers import Callers
from controller.extender.bind import DeviceBinder
from controller.extender.metrics import ExtenderMetrics
from controller.extender.reserve import NotBound
from controller.extender.service import ExtenderService, Unanswerable
from controller.extender.wire import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
)
from controller.extender.worker import NoAnswerInTime
from controller.manager.asgi import BodyTooLargeError, read_body
from shared.decode_errors import DECODE_ERRORS

PREFIX = "/scheduler/"
_LARGEST_BODY_BYTES = 4 * 2**20  # a pod, and the names of 5,000 nodes
_BODY_TIMEOUT_S = 2.0
_MAX_READING = 32
_MAX_BINDING = 64
_LONGEST_WAIT_S = 0.5  # the httpTimeout of the scheduler
_BAD_REQUEST, _NOT_FOUND, _NO_SUCH_METHOD, _TOO_LATE, _TOO_LARGE, _UNAVAILABLE = 400, 404, 405, 408, 413, 503
_NOT_READY = "this replica is still reading the cluster"
_log = structlog.get_logger("extender")
_Answer: TypeAlias = Callable[[Any], Awaitable[tuple[object, str]]]


@dataclass(frozen=True, slots=True)
class _Verb:
    """A verb of the extender API: its argument type and handler; `path` is the template for metrics."""

    name: str
    kind: type
    answer: _Answer

    @property
    def path(self) -> str:
        return f"{PREFIX}{{key}}/{self.name}"


class ExtenderServer:
    """Filter, prioritize and bind over HTTP, as an ASGI application."""

    def __init__(
        self,
        service: ExtenderService,
        binder: DeviceBinder,
        callers: Callers,
        is_ready: Callable[[], bool],
        metrics: ExtenderMetrics,
    ) -> None:
        self._service, self._binder, self._callers = service, binder, callers
        self._is_ready, self._metrics = is_ready, metrics
        self._reading, self._binding = asyncio.Semaphore(_MAX_READING), asyncio.Semaphore(_MAX_BINDING)
        verbs = (
            _Verb("filter", ExtenderArgs, self._filter),
            _Verb("prioritize", ExtenderArgs, self._prioritize),
            _Verb("bind", ExtenderBindingArgs, self._bind),
        )
        self._verbs = {verb.name: verb for verb in verbs}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request whose path begins with PREFIX."""
        key, _, name = scope["path"].removeprefix(PREFIX).partition("/")
        verb = self._verbs.get(name)
        scope["route"] = verb  # for the metrics of requests
        if denial := self._callers.denial(key, {}):
            response = _plain(denial.message, denial.status)
        elif verb is None:
            response = _plain("Not Found", _NOT_FOUND)
        elif scope["method"] != "POST":
            response = _plain("Method Not Allowed", _NO_SUCH_METHOD)
        elif not self._is_ready():
            response = _plain(_NOT_READY, _UNAVAILABLE)
        else:
            response = await self._respond(Request(scope, receive), verb)
        await response(scope, receive, send)

    async def _respond(self, request: Request, verb: _Verb) -> Response:
        args: Any
        try:
            async with self._reading, asyncio.timeout(_BODY_TIMEOUT_S):
                args = msgspec.json.decode(await read_body(request, _LARGEST_BODY_BYTES), type=verb.kind)
        except BodyTooLargeError as error:
            return _plain(str(error), _TOO_LARGE)
        except TimeoutError:
            return _plain(f"the body did not arrive within {_BODY_TIMEOUT_S:.0f} s", _TOO_LATE)
        except DECODE_ERRORS as error:
            return _plain(f"not a valid request of kube-scheduler: {error}", _BAD_REQUEST)
        began_s = time.perf_counter()
        found, outcome = await verb.answer(args)
        self._metrics.answered(verb.name, outcome, time.perf_counter() - began_s)
        return Response(msgspec.json.encode(found), media_type="application/json")

    async def _filter(self, args: ExtenderArgs) -> tuple[object, str]:
        """Answer which nodes a pod fits on."""
        try:
            return await self._service.filter(args), "answered"
        except (Unanswerable, NoAnswerInTime) as error:
            return ExtenderFilterResult(error=str(error)), "failed"

    async def _prioritize(self, args: ExtenderArgs) -> tuple[object, str]:
        """Answer with the priorities of nodes; if that fails, with an empty list, which makes all nodes equal."""
        try:
            return await self._service.prioritize(args), "answered"
        except (Unanswerable, NoAnswerInTime):
            return [], "failed"

    async def _bind(self, args: ExtenderBindingArgs) -> tuple[object, str]:
        """Bind a pod, unless it waits so long that the scheduler gives up and may choose another node."""
        try:
            async with asyncio.timeout(_LONGEST_WAIT_S):
                await self._binding.acquire()
        except TimeoutError:
            return ExtenderBindingResult(error=f"{_MAX_BINDING} pods are being bound; the scheduler retries"), "failed"
        try:
            await self._binder.bind(args)
        except NotBound as error:
            _log.info("not_bound", namespace=args.pod_namespace, pod=args.pod_name, error=str(error))
            return ExtenderBindingResult(error=str(error)), "refused"
        finally:
            self._binding.release()
        return ExtenderBindingResult(), "answered"


def _plain(message: str, status: int) -> Response:
    """Return a plain-text response and close the connection without reading the rest of the request."""
    return Response(message, status_code=status, media_type="text/plain", headers={"Connection": "close"})
