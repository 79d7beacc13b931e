"""The loading of plugins, for all kinds of them."""

from importlib.metadata import EntryPoint

import pytest

from shared.plugin_loading import in_order, installed_points, require


def test_entry_points_are_returned_in_the_order_of_their_names() -> None:
    points = [EntryPoint(name, "x:y", "g") for name in ("b", "a", "c")]
    assert [point.name for point in in_order(points)] == ["a", "b", "c"]


def test_only_entry_points_of_the_group_are_found() -> None:
    names = [point.name for point in installed_points("console_scripts")]
    assert "larder" in names
    assert names == sorted(names)
    assert installed_points("larder.no-such-group") == []


def test_a_missing_method_and_a_wrong_attribute_are_named() -> None:
    require("text", "text", ["upper"], {})
    with pytest.raises(TypeError, match="a str is not a toy: it has no wind, run"):
        require("text", "toy", ["wind", "upper", "run"], {})
    with pytest.raises(TypeError, match="the attribute name is not a str"):
        require("text", "toy", [], {"name": str})
