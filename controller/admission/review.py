"""Decodes and encodes AdmissionReview (`admission.k8s.io/v1`)."""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from controller.admission.errors import AdmissionRefused
from controller.admission.reviewed_objects import ReviewedObject, ReviewedPod
from shared.decode_errors import DECODE_ERRORS
from shared.errors import LarderError

API_VERSION = "admission.k8s.io/v1"
LONGEST_MESSAGE = 4000  # a pod may have a megabyte of names, which some refusals list
_FORBIDDEN = 403
_MAX_VALUES = 150_000  # each takes up to 90 bytes of memory for 3 bytes of JSON


class MalformedReviewError(ValueError):
    """The body is not an AdmissionReview with a request."""


class GroupVersionKind(msgspec.Struct, frozen=True):
    """The kind of the reviewed object."""

    group: str = ""
    version: str = ""
    kind: str = ""


class AdmissionRequest(msgspec.Struct, frozen=True):
    """A review request; `object` is None on DELETE, `old_object` on CREATE.

    Both hold only the fields in controller/admission/reviewed_objects.py. `name` is that of the object, which the
    request itself does not have if it deletes a collection.
    """

    uid: str
    operation: str
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None

    def created(self, kind: str) -> dict[str, Any] | None:
        """Return the object of this kind that is to be created; None for any other request."""
        is_creation = self.kind.kind == kind and self.operation == "CREATE" and not self.sub_resource
        return self.object if is_creation else None


class _Request(msgspec.Struct, rename="camel", frozen=True):
    uid: str
    operation: str
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")


class _Review(msgspec.Struct, rename="camel", frozen=True):
    api_version: str
    kind: str
    request: _Request


def read_review(body: bytes) -> AdmissionRequest:
    """Return the request of a review; MalformedReviewError says what is wrong with the body."""
    if body.count(b",") + body.count(b"{") + body.count(b"[") > _MAX_VALUES:
        raise MalformedReviewError(f"the review has more than {_MAX_VALUES} values")
    try:
        review = msgspec.json.decode(body, type=_Review)
        request = _read_objects(review.request)
    except DECODE_ERRORS as error:
        raise MalformedReviewError(f"the body is not an AdmissionReview: {error}") from error
    if review.api_version != API_VERSION or review.kind != "AdmissionReview":
        raise MalformedReviewError(f"expected AdmissionReview {API_VERSION}, got {review.kind} {review.api_version}")
    if not request.uid:
        raise MalformedReviewError("the request has no uid")
    return request


def _read_objects(raw: _Request) -> AdmissionRequest:
    shape: type[ReviewedPod | ReviewedObject] = ReviewedPod if raw.kind.kind == "Pod" else ReviewedObject
    found, before = (msgspec.json.decode(text, type=shape | None) for text in (raw.object, raw.old_object))
    return AdmissionRequest(
        uid=raw.uid,
        operation=raw.operation,
        kind=raw.kind,
        sub_resource=raw.sub_resource,
        name=raw.name or _name_of(before),
        namespace=raw.namespace,
        object=msgspec.to_builtins(found),
        old_object=msgspec.to_builtins(before),
    )


def _name_of(obj: ReviewedPod | ReviewedObject | None) -> str:
    return str(obj.metadata.name or "") if obj is not None else ""


def allow(request: AdmissionRequest, patch: Sequence[dict[str, Any]] = (), warnings: Sequence[str] = ()) -> bytes:
    """Return the response that allows the request, with the patch applied."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": True}
    if patch:
        encoded = base64.b64encode(msgspec.json.encode(patch)).decode()
        response |= {"patchType": "JSONPatch", "patch": encoded}
    if warnings:
        response["warnings"] = [f"larder: {warning}" for warning in warnings]
    return _answer(response)


def refuse(request: AdmissionRequest, error: LarderError) -> bytes:
    """Return the response that rejects the request with the error's reason and message."""
    code = error.code if isinstance(error, AdmissionRefused) else _FORBIDDEN
    status = {"status": "Failure", "code": code, "reason": error.reason, "message": str(error)[:LONGEST_MESSAGE]}
    return _answer({"uid": request.uid, "allowed": False, "status": status})


def _answer(response: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
