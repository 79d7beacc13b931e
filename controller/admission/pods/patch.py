"""JSON patches (RFC 6902) between two documents."""

from shared.json_object import Json

Value = object


def json_patch(before: Json, after: Json) -> list[Json]:
    """Return the operations that turn one document into the other; none if they are equal."""
    return _of_objects("", before, after)


def _of_objects(path: str, before: Json, after: Json) -> list[Json]:
    removed = [{"op": "remove", "path": _join(path, key)} for key in before if key not in after]
    changed = [op for key in after if key in before for op in _of_values(_join(path, key), before[key], after[key])]
    added = [{"op": "add", "path": _join(path, key), "value": after[key]} for key in after if key not in before]
    return removed + changed + added


def _of_values(path: str, before: Value, after: Value) -> list[Json]:
    if before == after and type(before) is type(after):
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        return _of_objects(path, before, after)
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [op for i, (old, new) in pairs for op in _of_values(f"{path}/{i}", old, new)]
    return [{"op": "replace", "path": path, "value": after}]


def _join(path: str, key: str) -> str:
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
