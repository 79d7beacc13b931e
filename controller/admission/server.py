"""The admission endpoints; TLS and the port belong to the composition root.

A caller that has not authenticated as the API server is rejected before a byte of its body is read.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal

import structlog
from fastapi import APIRouter, FastAPI, Request, Response

from controller.admission.callers import Callers
from controller.admission.catalog.port import Catalog, CatalogModel
from controller.admission.errors import AdmissionFailure, AdmissionRefused
from controller.admission.handlers import review_injection, review_job, review_object, review_pod
from controller.admission.review import (
    LONGEST_MESSAGE,
    AdmissionRequest,
    MalformedReviewError,
    allow,
    read_review,
    refuse,
)
from controller.admission.settings import AdmissionSettings
from controller.manager.asgi import BodyTooLargeError, read_body
from shared.errors import InvalidURI, LarderError
from shared.server.limits import PEER_CERTIFICATE

MUTATE_PATH = "/mutate-pods"
INJECT_PATH = "/mutate"
MUTATE_JOBS_PATH = "/mutate-jobs"
VALIDATE_PATH = "/validate"
PATHS = (MUTATE_PATH, INJECT_PATH, MUTATE_JOBS_PATH, VALIDATE_PATH)
OUTCOMES = ("allowed", "denied", "failed")
_PREFIX = "/admission/{key}"
_LARGEST_BODY_BYTES = 3 * 2**20
_LONGEST_READS_S = 3.0  # of lists of files, one for each cache that may have what a pod wants; the API server waits 5 s
_BODY_TIMEOUT_S = 2.0  # the API server sends a whole review at once
_MAX_READING = 32
_MAX_DECIDING = 8
_BAD_REQUEST, _TOO_LATE, _TOO_LARGE = 400, 408, 413

_log = structlog.get_logger("admission")
Outcome = Literal["allowed", "denied", "failed"]
Decide = Callable[[AdmissionRequest], Awaitable[bytes]]
Record = Callable[[str, Outcome, float], None]


def path_with(key: str, path: str) -> str:
    """Return the path of an endpoint including the key."""
    return _PREFIX.format(key=key) + path


def admission_app(catalog: Catalog, settings: AdmissionSettings, callers: Callers) -> FastAPI:
    """Return an application with only the admission endpoints."""
    app = FastAPI(openapi_url=None)
    app.include_router(admission_router(catalog, settings, callers))
    return app


def admission_router(
    catalog: Catalog, settings: AdmissionSettings, callers: Callers, record: Record = lambda *_: None
) -> APIRouter:
    """Return the endpoints that the webhook configurations name.

    `record` is called for each review with its path (without the key), its outcome, and the seconds it took.
    """
    reviews = _Reviews(callers, record)

    async def mutate(review: AdmissionRequest) -> bytes:
        change, read = review_pod(review, catalog, settings), list[CatalogModel]()
        with suppress(TimeoutError):  # then the pod keeps its download
            async with asyncio.timeout(_LONGEST_READS_S):
                while change.unread is not None and change.unread not in read:
                    read.append(change.unread)
                    await catalog.read_files(change.unread)
                    change = review_pod(review, catalog, settings)
        return allow(review, change.patch, change.warnings)

    async def inject_named(review: AdmissionRequest) -> bytes:
        change = await review_injection(review, catalog)
        return allow(review, change.patch, change.warnings)

    async def mutate_a_job(review: AdmissionRequest) -> bytes:
        return allow(review, review_job(review, settings))

    async def check(review: AdmissionRequest) -> bytes:
        return allow(review, warnings=await review_object(review, catalog, settings))

    decisions = {MUTATE_PATH: mutate, INJECT_PATH: inject_named, MUTATE_JOBS_PATH: mutate_a_job, VALIDATE_PATH: check}
    router = APIRouter(prefix=_PREFIX)
    for path, decide in decisions.items():
        router.add_api_route(path, reviews.endpoint(path, decide), methods=["POST"])
    return router


class _Reviews:
    """Answers a bounded number of reviews at a time; waiting requests have no body in memory yet."""

    def __init__(self, callers: Callers, record: Record) -> None:
        self._callers, self._record = callers, record
        self._reading, self._deciding = asyncio.Semaphore(_MAX_READING), asyncio.Semaphore(_MAX_DECIDING)

    def endpoint(self, path: str, decide: Decide) -> Callable[[Request, str], Awaitable[Response]]:
        """Return the endpoint that answers reviews with `decide`; `path` is recorded in metrics."""

        async def respond(request: Request, key: str) -> Response:
            return await self._respond(request, key, path, decide)

        return respond

    async def _respond(self, request: Request, key: str, path: str, decide: Decide) -> Response:
        certificate = request.scope.get("state", {}).get(PEER_CERTIFICATE) or {}
        if denial := self._callers.denial(key, certificate):
            return _plain(denial.message, denial.status)
        try:
            async with self._reading:
                async with asyncio.timeout(_BODY_TIMEOUT_S):
                    body = await read_body(request, _LARGEST_BODY_BYTES)
                async with self._deciding:
                    return await self._answer(body, path, decide)
        except BodyTooLargeError as error:
            self._record(path, "failed", 0.0)
            return _plain(str(error), _TOO_LARGE)
        except TimeoutError:
            self._record(path, "failed", _BODY_TIMEOUT_S)
            return _plain(f"the body did not arrive within {_BODY_TIMEOUT_S:.0f} s", _TOO_LATE)

    async def _answer(self, body: bytes, path: str, decide: Decide) -> Response:
        began_s = time.perf_counter()
        try:
            review = read_review(body)
        except MalformedReviewError as error:
            self._record(path, "failed", time.perf_counter() - began_s)
            return _plain(str(error), _BAD_REQUEST)
        answer, outcome = await _run_decision(review, decide)
        took_s = time.perf_counter() - began_s
        self._record(path, outcome, took_s)
        _log.debug("reviewed", kind=review.kind.kind, namespace=review.namespace, outcome=outcome, took_s=took_s)
        return Response(answer, media_type="application/json")


def _plain(message: str, status: int) -> Response:
    """Return a plain-text response and close the connection without reading the rest of the request."""
    return Response(message, status_code=status, media_type="text/plain", headers={"Connection": "close"})


async def _run_decision(review: AdmissionRequest, decide: Decide) -> tuple[bytes, Outcome]:
    """Return the response and the outcome; an internal error is reported as a refusal, never as a stack trace."""
    about = {"kind": review.kind.kind, "namespace": review.namespace, "name": review.name, "uid": review.uid}
    try:
        return await decide(review), "allowed"
    except (AdmissionRefused, InvalidURI) as error:
        _log.info("admission_refused", reason=error.reason, message=str(error)[:LONGEST_MESSAGE], **about)
        return refuse(review, error), "denied"
    except LarderError as error:
        _log.warning("admission_failed", reason=error.reason, message=str(error)[:LONGEST_MESSAGE], **about)
        failure = f"{error}; this {about['kind']} was not reviewed; try again"
        return refuse(review, AdmissionFailure(failure)), "failed"
    except Exception as error:  # noqa: BLE001 - the API server always needs a readable answer
        _log.exception("admission_failed", **about)
        failure = (
            f"Larder could not review this {review.kind.kind} ({type(error).__name__}); try again, and look for review "
            f"{review.uid} in the controller's log"
        )
        return refuse(review, AdmissionFailure(failure)), "failed"
