"""Finds objects in the output of helm."""

from collections.abc import Iterable

from shared.json_object import Json


def only(objects: Iterable[Json], kind: str, name: str) -> Json:
    """Return the object of this kind and name; there must be exactly one."""
    (found,) = (o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name))
    return found


def kinds(objects: Iterable[Json]) -> set[tuple[str, str]]:
    """Return kind and name of each object."""
    return {(o["kind"], o["metadata"]["name"]) for o in objects}


def pod_specs(objects: Iterable[Json]) -> dict[str, Json]:
    """Return the pod specs by the name of the object that holds them."""
    found = {}
    for o in objects:
        if o["kind"] == "Pod":
            found[o["metadata"]["name"]] = o["spec"]
        elif "template" in o.get("spec", {}):
            found[o["metadata"]["name"]] = o["spec"]["template"]["spec"]
    return found


def environment(container: Json) -> dict[str, str]:
    """Return a container's environment; a variable that refers to a field has the field's path as its value."""
    return {
        e["name"]: e["value"] if "value" in e else e["valueFrom"]["fieldRef"]["fieldPath"] for e in container["env"]
    }


KINDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
