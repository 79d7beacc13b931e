"""AdmissionReview (`admission.k8s.io/v1`) in and out."""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from controller.admission.errors import Refused
from shared.errors import LarderError

API_VERSION = "admission.k8s.io/v1"
_FORBIDDEN = 403


class MalformedReviewError(ValueError):
    """The body is not an AdmissionReview with a request."""


class GroupVersionKind(msgspec.Struct, frozen=True):
    """What kind of object is reviewed."""

    group: str = ""
    version: str = ""
    kind: str = ""


class Request(msgspec.Struct, rename="camel", frozen=True):
    """What the API server asks about. `object` is None on DELETE, `old_object` on CREATE."""

    uid: str
    operation: str
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class _Review(msgspec.Struct, rename="camel", frozen=True):
    api_version: str
    kind: str
    request: Request


def read_review(body: bytes) -> Request:
    """Return the request of a review; MalformedReviewError says what is wrong with the body."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedReviewError(f"the body is not an AdmissionReview: {error}") from error
    if review.api_version != API_VERSION or review.kind != "AdmissionReview":
        raise MalformedReviewError(f"expected AdmissionReview {API_VERSION}, got {review.kind} {review.api_version}")
    if not review.request.uid:
        raise MalformedReviewError("the request has no uid")
    return review.request


def allow(request: Request, patch: Sequence[dict[str, Any]] = (), warnings: Sequence[str] = ()) -> bytes:
    """Return the answer that lets the request pass, changed by the patch."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": True}
    if patch:
        encoded = base64.b64encode(msgspec.json.encode(patch)).decode()
        response |= {"patchType": "JSONPatch", "patch": encoded}
    if warnings:
        response["warnings"] = [f"larder: {warning}" for warning in warnings]
    return _answer(response)


def refuse(request: Request, error: LarderError) -> bytes:
    """Return the answer that refuses the request with the error's reason and message."""
    code = error.code if isinstance(error, Refused) else _FORBIDDEN
    status = {"status": "Failure", "code": code, "reason": error.reason, "message": str(error)}
    return _answer({"uid": request.uid, "allowed": False, "status": status})


def _answer(response: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
