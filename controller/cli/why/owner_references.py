"""Follows owner references between objects. No input or output, no clock."""

from collections import defaultdict
from collections.abc import Mapping

from shared.kube.objects import Meta


def descendants(root: str, known: Mapping[str, Meta]) -> set[str]:
    """Return the uids of the known objects that an object owns, directly or indirectly."""
    children: defaultdict[str, list[str]] = defaultdict(list)
    for uid, meta in known.items():
        for reference in meta.owner_references:
            children[str(reference.get("uid", ""))].append(uid)
    found, ahead = set[str](), [root]
    while ahead:
        new = [uid for uid in children[ahead.pop()] if uid not in found]
        found.update(new)
        ahead += new
    return found


def unknown_owners(known: Mapping[str, Meta]) -> set[tuple[str, str]]:
    """Return API version and kind of owners that are not known yet."""
    references = (reference for meta in known.values() for reference in meta.owner_references)
    return {
        (str(reference.get("apiVersion", "")), str(reference.get("kind", "")))
        for reference in references
        if reference.get("uid") not in known
    }


def controller_of(meta: Meta) -> Mapping[str, str] | None:
    """Return the reference to an object's controller, else to its first owner, else None."""
    references = meta.owner_references
    return next((r for r in references if r.get("controller") is True), references[0] if references else None)
