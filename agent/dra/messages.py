"""The protobuf messages between kubelet and a driver, built at run time with only the fields that are used.

Field numbers and types are from `k8s.io/kubelet/pkg/apis` (`pluginregistration/v1`, `dra/v1`, `dra-health/v1alpha1`).
Other fields are ignored on receipt.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto


class _Field(NamedTuple):
    """One field; its type is a scalar, a message name, or a map from strings to messages."""

    number: int
    name: str
    type: str
    repeated: bool = False
    optional: bool = False
    map_of: bool = False


_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "bool": _FIELD.TYPE_BOOL,
    "int64": _FIELD.TYPE_INT64,
    "enum": _FIELD.TYPE_INT32,
}
_POOL = descriptor_pool.DescriptorPool()


def _declare(package: str, messages: dict[str, tuple[_Field, ...]]) -> None:
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add_field(message, package, field)
    _POOL.Add(file)


def _add_field(message: Any, package: str, field: _Field) -> None:  # noqa: ANN401 - protobuf has no types
    full = f".{package}.{message.name}"
    added = message.field.add(name=field.name, number=field.number)
    added.label = _FIELD.LABEL_REPEATED if field.repeated or field.map_of else _FIELD.LABEL_OPTIONAL
    if field.map_of:
        entry = message.nested_type.add(name=f"{field.name.capitalize()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
        value = entry.field.add(name="value", number=2, type=_FIELD.TYPE_MESSAGE, label=_FIELD.LABEL_OPTIONAL)
        value.type_name = f".{package}.{field.type}"
        added.type, added.type_name = _FIELD.TYPE_MESSAGE, f"{full}.{entry.name}"
    elif field.type in _SCALARS:
        added.type = _SCALARS[field.type]
    else:
        added.type, added.type_name = _FIELD.TYPE_MESSAGE, f".{package}.{field.type}"
    if field.optional:
        added.proto3_optional, added.oneof_index = True, len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


REGISTRATION, DRA, HEALTH = "pluginregistration", "k8s.io.kubelet.pkg.apis.dra.v1", "v1alpha1"
_CLAIMS = (_Field(1, "claims", "Claim", repeated=True),)
_declare(REGISTRATION, {
    "InfoRequest": (),
    "PluginInfo": (_Field(1, "type", "string"), _Field(2, "name", "string"), _Field(3, "endpoint", "string"),
                   _Field(4, "supported_versions", "string", repeated=True)),
    "RegistrationStatus": (_Field(1, "plugin_registered", "bool"), _Field(2, "error", "string")),
    "RegistrationStatusResponse": (),
})  # fmt: skip
_declare(DRA, {
    "Claim": (_Field(1, "namespace", "string"), _Field(2, "uid", "string"), _Field(3, "name", "string")),
    "Device": (_Field(1, "request_names", "string", repeated=True), _Field(2, "pool_name", "string"),
               _Field(3, "device_name", "string"), _Field(4, "cdi_device_ids", "string", repeated=True),
               _Field(5, "share_id", "string", optional=True)),
    "NodePrepareResourceResponse": (_Field(1, "devices", "Device", repeated=True), _Field(2, "error", "string")),
    "NodeUnprepareResourceResponse": (_Field(1, "error", "string"),),
    "NodePrepareResourcesRequest": _CLAIMS,
    "NodePrepareResourcesResponse": (_Field(1, "claims", "NodePrepareResourceResponse", map_of=True),),
    "NodeUnprepareResourcesRequest": _CLAIMS,
    "NodeUnprepareResourcesResponse": (_Field(1, "claims", "NodeUnprepareResourceResponse", map_of=True),),
})  # fmt: skip
_declare(HEALTH, {
    "NodeWatchResourcesRequest": (),
    "DeviceIdentifier": (_Field(1, "pool_name", "string"), _Field(2, "device_name", "string")),
    "DeviceHealth": (_Field(1, "device", "DeviceIdentifier"), _Field(2, "health", "enum"),
                     _Field(3, "last_updated_time", "int64"), _Field(5, "message", "string")),
    "NodeWatchResourcesResponse": (_Field(1, "devices", "DeviceHealth", repeated=True),),
})  # fmt: skip
HEALTHY, UNHEALTHY = 1, 2


def message_class(package: str, name: str) -> Any:  # noqa: ANN401 - protobuf has no types
    """Return the class of a message."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{package}.{name}"))


def declared(package: str) -> Iterable[str]:
    """Return the names of the messages of a package."""
    return list(_POOL.FindFileByName(f"{package}.proto").message_types_by_name)
