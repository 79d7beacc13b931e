"""Charts as SVG, from a few shapes."""

from collections.abc import Sequence
from html import escape

_BAR, _GAP, _LEFT, _WIDTH, _TOP = 16, 6, 230, 820, 30
_STYLE = "<style>text{font:12px sans-serif;fill:#333}.t{font-weight:bold}</style>"
_PLAIN, _MARKED, _QUIET = "#8aa4c0", "#1f6f43", "#b9b9b9"


def bars(title: str, entries: Sequence[tuple[str, float, str, str]]) -> str:
    """Return a chart of horizontal bars: name, value, the label at its end, and `ours`, `floor` or nothing."""
    height = _TOP + len(entries) * (_BAR + _GAP) + _GAP
    most = max((value for _, value, _, _ in entries), default=1.0)
    room = _WIDTH - _LEFT - 110
    parts = [_text(8, 18, title, "t")]
    for number, (name, value, written, role) in enumerate(entries):
        y, width = _TOP + number * (_BAR + _GAP), max(1.0, room * value / most)
        colour = {"ours": _MARKED, "floor": _QUIET}.get(role, _PLAIN)
        parts.append(f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>')
        parts.append(_text(8, y + 13, name) + _text(_LEFT + width + 6, y + 13, written))
    return _svg(height, parts)


def line(title: str, points: Sequence[tuple[float, float]], limit: float, unit: str) -> str:
    """Return a curve of (seconds, value) from zero, with a dashed line at `limit`."""
    height, left, bottom = 260, 60, 230
    last = max((x for x, _ in points), default=1.0) or 1.0
    most = max(limit, *(y for _, y in points)) * 1.1

    def at(x: float, y: float) -> tuple[float, float]:
        return left + (_WIDTH - left - 20) * x / last, bottom - (bottom - _TOP) * y / most

    curve = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in points))
    _, y_limit = at(0, limit)
    parts = [
        _text(8, 18, title, "t"),
        f'<polyline points="{curve}" fill="none" stroke="{_MARKED}" stroke-width="2"/>',
        f'<path d="M{left},{y_limit:.1f}H{_WIDTH - 20}" stroke="{_PLAIN}" stroke-dasharray="6 4"/>',
        f'<path d="M{left},{_TOP}V{bottom}H{_WIDTH - 20}" fill="none" stroke="#333"/>',
        _text(4, y_limit + 4, f"{limit:.0f} {unit}"),
        _text(left, bottom + 18, "0 s") + _text(_WIDTH - 60, bottom + 18, f"{last:.1f} s"),
    ]
    return _svg(height, parts)


def _text(x: float, y: float, phrase: str, kind: str = "") -> str:
    mark = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{mark}>{escape(phrase)}</text>'


def _svg(height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}">'
    ground = f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>'
    return "\n".join([head, _STYLE, ground, *parts, "</svg>"]) + "\n"
