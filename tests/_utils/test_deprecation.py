import warnings

import numpy as np
import pytest

import suwr
from suwr._utils.deprecation import DeprecatedName, deprecated_attribute, renamed_parameter


def test_a_deprecated_attribute_warns_with_the_replacement():
    names = {"old": DeprecatedName("math:pi", "Use math.pi", removal="9.0")}
    message = r"module\.old is deprecated and will be removed in version 9\.0\. Use math\.pi\."
    with pytest.warns(FutureWarning, match=message):
        assert deprecated_attribute("module", "old", names) == pytest.approx(np.pi)
    with pytest.raises(AttributeError, match="module 'module' has no attribute 'other'"):
        deprecated_attribute("module", "other", names)


def test_a_renamed_parameter_is_passed_on_under_its_new_name():
    @renamed_parameter("colour", "color", removal="9.0")
    class Brush:
        def __init__(self, *, color="red"):
            self.color = self.color_ = color

    with pytest.warns(FutureWarning, match="'colour' parameter of Brush .* Use 'color'") as caught:
        brush = Brush(colour="blue")
    assert caught[0].filename == __file__
    assert brush.color == "blue"
    with pytest.warns(FutureWarning, match="'colour_' attribute of Brush .* Use 'color_'"):
        assert brush.colour_ == "blue"
    with pytest.raises(TypeError, match="pass only 'color'"):
        Brush(colour="blue", color="green")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Brush(color="green").color == "green"


@pytest.mark.parametrize(
    ("module", "name"),
    [(module, name) for module in (suwr,) for name in sorted(module._DEPRECATED)],
    ids=lambda part: getattr(part, "__name__", part),
)
def test_deprecated_names_warn_at_the_line_that_uses_them(module, name):
    with pytest.warns(FutureWarning, match=rf"{module.__name__}\.{name} is deprecated") as caught:
        assert getattr(module, name) is not None
    assert caught[0].filename == __file__
    assert name not in module.__all__
