"""What to report when another object has the name of a Model's claim or Job. No input or output, no clock."""

from shared.kube.objects import Meta, Object

NAME_CONFLICT, EARLIER = "NameConflict", "Starting"


def reason_of_taken_name(found: Object, model: Meta, what: str) -> tuple[str, str]:
    """Return the reason and the message: a conflict, unless Kubernetes is about to delete the object.

    Args:
        found: The object, which the Model does not own.
        model: The Model.
        what: What the object is, for the message.
    """
    title = f"{what} {found.metadata.name}"
    owner = next((o for o in found.metadata.owner_references if o.get("controller") is True), {})
    if (owner.get("kind"), owner.get("name")) == ("Model", model.name):
        return EARLIER, f"{title} belongs to an earlier Model of this name, and Kubernetes is deleting it"
    whose = f"belongs to {owner.get('kind')} {owner.get('name')}" if owner else "exists, but Larder did not create it"
    advice = "create the Model under another name"
    return NAME_CONFLICT, f"{title} {whose}; {advice if owner else f'delete it if nobody needs it, or {advice}'}"
