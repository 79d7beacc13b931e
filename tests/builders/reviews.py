"""Admission reviews as the API server sends them."""

from typing import Any


def admission_review(kind: str, operation: str = "CREATE", **request: object) -> dict[str, Any]:
    fields = {"uid": "u-1", "operation": operation, "kind": {"group": "", "version": "v1", "kind": kind}} | request
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": fields}
