"""The schema of a pod template in our kinds: the fields that Larder reads, and all others unchecked."""

from shared.json_object import Json

KEEP: Json = {"x-kubernetes-preserve-unknown-fields": True}
_NAME = {"type": "string", "maxLength": 63, "description": "Name of the container."}
_TEXTS: Json = {"type": "object", "nullable": True, "additionalProperties": {"type": "string"}}


def pod_template(containers: str) -> Json:
    """Return the schema of a v1.PodTemplateSpec with at least one container; `containers` describes them."""
    listed: Json = {
        "type": "array",
        "minItems": 1,
        "maxItems": 64,
        "description": containers,
        "items": {"type": "object", "required": ["name"], "properties": {"name": _NAME}, **KEEP},
    }
    pod = {"type": "object", "description": "A v1.PodSpec.", "required": ["containers"]}
    return {
        "required": ["spec"],
        "properties": {
            "metadata": {
                "type": "object",
                "description": "Labels and annotations of the pods.",
                "properties": {
                    "labels": _TEXTS | {"description": "Labels of the pods."},
                    "annotations": _TEXTS | {"description": "Annotations of the pods."},
                },
                **KEEP,
            },
            "spec": {**pod, "properties": {"containers": listed}, **KEEP},
        },
        **KEEP,
    }
