from agent.transfer.stall_detector import StallDetector


def test_a_body_below_the_minimum_rate_is_abandoned_after_a_window() -> None:
    pace = StallDetector(least_rate=1000, window_s=10)
    assert [pace.observe(500, 1.0) for _ in range(9)] == [None] * 9
    assert pace.observe(500, 1.0) == 500


def test_a_body_at_the_minimum_rate_is_not_abandoned() -> None:
    pace = StallDetector(least_rate=1000, window_s=10)
    assert [pace.observe(1000, 1.0) for _ in range(50)] == [None] * 50


def test_a_rate_limit_lowers_the_rate_required_of_a_body() -> None:
    pace = StallDetector(least_rate=1000, window_s=10)
    assert [pace.observe(500, 1.0, limit=2000) for _ in range(20)] == [None] * 20


def test_each_window_is_measured_by_itself() -> None:
    pace = StallDetector(least_rate=1000, window_s=2)
    assert pace.observe(10_000, 2.0) is None
    assert pace.observe(10, 2.0) == 5
