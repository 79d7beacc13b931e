"""Deletions that admission would refuse, made while its webhook is removed."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rig.errors import CallRefused
from rig.larder.site import Site

_VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def delete_unguarded(site: Site, kind: str, name: str) -> None:
    """Delete an object that is in use."""
    with _unguarded(site):
        site.until(lambda: _is_deleted(site, kind, name), "the deletion to be taken")


@contextmanager
def _unguarded(site: Site) -> Iterator[None]:
    for found in site.api.get(_VALIDATING)["items"]:
        site.api.delete(f"{_VALIDATING}/{found['metadata']['name']}")
    try:
        yield
    finally:
        site.cluster.aim_webhooks(site.cluster.controllers[0])


def _is_deleted(site: Site, kind: str, name: str) -> bool:
    """Delete an object unless it is being deleted; a removed webhook is still called for a moment."""
    if "deletionTimestamp" in site.get(kind, name)["metadata"]:
        return True
    with suppress(CallRefused):
        site.delete(kind, name)
    return False
