import socket

import pytest

from agent.server.listen import check_address, listen_on
from shared.errors import StoreFailure


@pytest.mark.parametrize("text", ["", "8081", ":8081", "localhost:", "localhost:http"])
def test_an_address_has_a_host_and_a_port(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        check_address(text)


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StoreFailure, match=f"cannot listen on {address}"):
            listen_on(address)
