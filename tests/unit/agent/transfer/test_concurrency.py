from hypothesis import given, settings
from hypothesis import strategies as st

from agent.transfer.concurrency import ConcurrencyController

TICK_S = 0.1
ENDLESS = 10**15


def settle(
    first: int, most: int, link: float, connection: float, *, speeds_up_s: float = 0.0, seconds: float = 30.0
) -> list[int]:
    """Return the connections, tick by tick, on a link that gives `connection` to each and `link` to all.

    A connection asks for half of `speeds_up_s`, and gets more from tick to tick in the other half.
    """
    controller, received, began, found = ConcurrencyController(first, most, 0.0, 1), 0.0, list[float](), list[int]()
    for tick in range(1, round(seconds / TICK_S) + 1):
        now = tick * TICK_S
        began = [*began, *[now] * (controller.connections - len(began))][: controller.connections]
        speeds = [min(1.0, max(0.0, 2 * (now - since) / speeds_up_s - 1)) if speeds_up_s else 1.0 for since in began]
        received += min(link, sum(speeds) * connection) * TICK_S
        found.append(controller.observe(int(received), ENDLESS, now, 0.0))
    return found


def test_the_example_in_the_docstring_is_correct() -> None:
    controller, received, found = ConcurrencyController(4, 16, 0.0, 1), 0.0, list[int]()
    for sample, rate in enumerate([20, 30, 40, 40, 60, 80, 80, 85, 85, 85, 85], 1):
        received += rate * 1e6 * 0.5
        found.append(controller.observe(int(received), ENDLESS, sample * 0.5, 0.0))
    assert found == [4, 4, 4, 8, 8, 8, 16, 16, 16, 16, 8]


def test_a_nearby_server_gets_one_trial_and_then_the_initial_connections() -> None:
    found = settle(4, 16, link=1e9, connection=1e9)
    assert set(found) == {4, 8}
    assert found.count(8) <= 15
    assert found[-1] == 4


def test_no_trial_is_made_while_the_processors_are_busy() -> None:
    for share, most in ((0.8, 4), (0.6, 8)):
        controller, found = ConcurrencyController(4, 16, 0.0, processors=2), set[int]()
        for tick in range(1, 300):
            now = tick * TICK_S
            found.add(controller.observe(int(now * 1e9), ENDLESS, now, used_s=now * 2 * share))
        assert max(found) == most


def test_a_trial_follows_as_soon_as_the_processors_are_free() -> None:
    controller, found = ConcurrencyController(4, 16, 0.0, processors=1), list[int]()
    for tick in range(1, 60):
        now = tick * TICK_S
        found.append(controller.observe(int(now * 1e9), ENDLESS, now, used_s=min(now, 3.0)))
    assert set(found[:30]) == {4}
    assert 8 in found[30:45]


def test_connections_to_a_distant_server_grow_up_to_the_useful_number() -> None:
    assert settle(4, 16, link=1e9, connection=1e9 / 16)[-1] == 16
    assert settle(1, 16, link=1e9, connection=1e9 / 4)[-1] == 4


def test_a_slow_single_file_gets_a_few_connections() -> None:
    assert settle(1, 16, link=1e8, connection=1e8, seconds=0.9) == [1] * 4 + [4] * 5
    assert settle(1, 2, link=1e8, connection=1e8, seconds=0.9)[-1] == 2
    assert set(settle(1, 16, link=1e9, connection=1e9, seconds=0.9)) == {1}


def test_a_distant_server_gets_the_same_connections_if_they_speed_up_slowly() -> None:
    for speeds_up_s in (0.5, 1.0, 2.0, 4.0):
        assert settle(4, 16, link=1e9, connection=1e9 / 16, speeds_up_s=speeds_up_s)[-1] == 16


def test_a_rate_that_rises_on_its_own_adds_no_connections() -> None:
    controller, received = ConcurrencyController(4, 16, 0.0, 1), 0
    for tick in range(1, 100):
        received += int(1.1**tick * 1000)
        assert controller.observe(received, ENDLESS, tick * TICK_S, 0.0) == 4


def test_no_trial_is_made_shortly_before_a_download_ends() -> None:
    controller, rate = ConcurrencyController(4, 16, 0.0, 1), 10**8
    assert {controller.observe(rate * second, rate * (4 - second), float(second), 0.0) for second in range(1, 5)} == {4}


def test_no_trial_is_made_before_the_first_bytes_arrive() -> None:
    controller = ConcurrencyController(4, 16, 0.0, 1)
    assert {controller.observe(0, ENDLESS, tick * TICK_S, 0.0) for tick in range(600)} == {4}


def test_a_further_trial_is_made_later_if_conditions_change() -> None:
    controller, received = ConcurrencyController(4, 16, 0.0, 1), 0
    for second in range(1, 40):  # near
        received += 10**9
        controller.observe(received, ENDLESS, float(second), 0.0)
    assert controller.connections in (4, 8)
    for second in range(40, 120):  # far
        received += controller.connections * 10**6
        controller.observe(received, ENDLESS, float(second), 0.0)
    assert controller.connections == 16


def seconds_of(
    first: int, most: int, mib: int, *, round_trip_s: float, link: float = 125e6, window_mb: float = 3.0
) -> float:
    """Return how long a download takes whose connections start slowly and are each held to a window a round trip.

    A new one needs three round trips to the first byte. Where it is one of several of a file, it asks for each piece
    of 16 MiB again, which costs a round trip.
    """
    controller, missing, now, tick_s, piece = (
        ConcurrencyController(first, most, 0.0, 1),
        mib * 2.0**20,
        0.0,
        0.02,
        16 * 2**20,
    )
    starts, windows, moved = [0.0] * most, [15e3] * most, [0.0] * most
    running = 0
    while missing > 0:
        now += tick_s
        for new in range(running, controller.connections):
            starts[new], windows[new], moved[new] = now + 3 * round_trip_s, 15e3, 0.0
        running = controller.connections
        flowing = [each for each in range(running) if now >= starts[each]]
        wanted = sum(windows[each] for each in flowing) / round_trip_s
        share = min(1.0, link / wanted) if wanted else 0.0
        for each in flowing:
            size = windows[each] / round_trip_s * share * tick_s
            missing, moved[each] = missing - size, moved[each] + size
            if share == 1.0:
                windows[each] = min(window_mb * 1e6, windows[each] * 2 ** (tick_s / round_trip_s))
            if running > first and moved[each] >= piece:
                starts[each], moved[each] = now + round_trip_s, 0.0
        controller.observe(int(mib * 2**20 - missing), max(0, int(missing)), now, 0.0)
    return now


def test_a_trial_speeds_up_a_single_file_from_a_distant_server() -> None:
    for window_mb in (2.0, 3.0):
        far = {"round_trip_s": 0.15, "window_mb": window_mb}
        assert seconds_of(1, 16, 512, **far) < 0.85 * seconds_of(1, 4, 512, **far)


def test_trials_cost_at_most_one_percent_on_a_full_link() -> None:
    for round_trip_s in (0.005, 0.03, 0.08):
        kept = seconds_of(4, 4, 4096, round_trip_s=round_trip_s)
        assert seconds_of(4, 16, 4096, round_trip_s=round_trip_s) <= 1.01 * kept


@settings(max_examples=50)
@given(
    first=st.sampled_from([1, 4]),
    mib=st.integers(32, 2048),
    round_trip_s=st.floats(0.005, 0.3),
    link=st.floats(30e6, 1e9),
    window_mb=st.floats(1, 16),
)
def test_more_connections_never_cost_much(
    first: int, mib: int, round_trip_s: float, link: float, window_mb: float
) -> None:
    at_most = seconds_of(first, 4, mib, round_trip_s=round_trip_s, link=link, window_mb=window_mb)
    took = seconds_of(first, 16, mib, round_trip_s=round_trip_s, link=link, window_mb=window_mb)
    assert took <= 1.15 * at_most + 0.1


@given(
    first=st.integers(1, 8),
    most=st.integers(1, 32),
    rates=st.lists(st.integers(0, 10**10), min_size=1, max_size=100),
    missing=st.integers(0, 10**12),
)
def test_the_number_of_connections_stays_between_the_first_and_the_maximum(
    first: int, most: int, rates: list[int], missing: int
) -> None:
    controller, received = ConcurrencyController(first, most, 0.0, 1), 0
    for second, rate in enumerate(rates, 1):
        received += rate
        assert min(first, most) <= controller.observe(received, missing, float(second), 0.0) <= most
