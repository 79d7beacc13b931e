"""The address of an HTTP endpoint on a node: checked when settings are read, and opened before any work starts."""

import socket

from shared.errors import StoreFailure


def check_address(text: str) -> str:
    """Return an address as it was given. Raises ValueError unless it is HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{text!r} is not HOST:PORT; for example, write 127.0.0.1:8081")
    return text


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of a checked address; an IPv6 address is returned without brackets."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def listen_on(address: str) -> socket.socket:
    """Return a socket that listens on HOST:PORT. Raises StoreFailure if the address cannot be used."""
    host, port = parse_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise StoreFailure(f"cannot listen on {address}: {error.strerror}; choose another --listen") from error
