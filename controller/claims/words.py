"""A verdict in the words of OME's status."""

from controller.claims.decide import Tell
from controller.claims.verdict import ON_CLAIM
from controller.claims.view import ClaimView
from controller.models.revisions import DRIFTED, REFRESHED, REMOVING, UPDATING, Told
from controller.models.words import with_conditions
from shared.api.base_model import BaseModelStatus
from shared.api.meta import condition_of

_OF_NODES = (DRIFTED, REFRESHED, UPDATING, REMOVING)


def claim_status(view: ClaimView, told: Tell, stamp: str) -> BaseModelStatus:
    """Return the status; what a model on nodes had there before is taken away."""
    before, found = view.status, told.verdict
    resolved = Told("Resolved", "True", ON_CLAIM, "a model on a claim has no revisions: pods read what is there")
    words = "the model is on a claim: no node fetches it, and what nodes had of it they remove"
    over = [Told(kind, "False", ON_CLAIM, words) for kind in _OF_NODES if condition_of(before.conditions, kind)]
    size = told.metadata.values.get("sizeBytes", 0) if told.metadata else 0
    return BaseModelStatus(
        conditions=with_conditions(
            before.conditions, [found.ready, resolved, found.metadata, *over], stamp, view.generation
        ),
        observed_generation=view.generation,
        source=view.demand.uri,
        refreshed=told.refreshed,
        size=size if isinstance(size, int) else 0,
        metadata=told.metadata,
        state=found.state,
        lifecycle=before.lifecycle,
    )
