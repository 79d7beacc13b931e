from hypothesis import given
from hypothesis import strategies as st

from agent.transfer.width import Width


def settle(first: int, most: int, link: float, connection: float, seconds: int = 20) -> list[int]:
    """Return the connections second by second on a link that gives `connection` to each and `link` to all."""
    width, received, found = Width(first, most, 0.0), 0, []
    for second in range(1, seconds + 1):
        received += int(min(link, width.connections * connection))
        found.append(width.observe(received, float(second)))
    return found


def test_a_near_server_stays_at_a_connection_a_file() -> None:
    assert settle(4, 16, link=1e9, connection=1e9)[1:] == [4] * 19


def test_a_far_server_gets_as_many_as_it_takes() -> None:
    assert settle(4, 16, link=1e9, connection=1e9 / 16)[-1] == 16
    assert settle(1, 16, link=1e9, connection=1e9 / 4)[-1] == 4


def test_nothing_is_decided_within_a_second() -> None:
    width = Width(4, 16, 0.0)
    assert [width.observe(10**9, at / 10) for at in range(10)] == [4] * 10


def test_it_tries_again_later() -> None:
    width, received = Width(4, 16, 0.0), 0
    for second in range(1, 40):  # near
        received += 10**9
        width.observe(received, float(second))
    assert width.connections in (4, 8)
    for second in range(40, 120):  # far
        received += width.connections * 10**6
        width.observe(received, float(second))
    assert width.connections == 16


@given(
    first=st.integers(1, 8),
    most=st.integers(1, 32),
    rates=st.lists(st.integers(0, 10**10), min_size=1, max_size=100),
)
def test_never_fewer_than_at_first_and_never_more_than_the_most(first: int, most: int, rates: list[int]) -> None:
    width, received = Width(first, most, 0.0), 0
    for second, rate in enumerate(rates, 1):
        received += rate
        assert min(first, most) <= width.observe(received, float(second)) <= most
