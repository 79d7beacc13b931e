"""Serial ports as devices: each adapter that is plugged into a node is one, and one container gets it for itself."""

EXTENDED_RESOURCE = "larder.dev/serial-port"  # how pods ask for a number of ports


def port(name: str) -> str:
    """Return the group resource that stands for a port: on a node its name, in a request any index."""
    return f"resource/group/serial/{name}/port"


def is_port(resource: str) -> bool:
    """Return whether a resource stands for a port."""
    return resource.startswith("resource/group/serial/") and resource.endswith("/port")


def name_of(resource: str) -> str:
    """Return the name in a resource that stands for a port."""
    return resource.split("/")[3]
