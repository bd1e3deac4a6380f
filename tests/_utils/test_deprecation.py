import warnings

import numpy as np
import pytest

import suwr
from suwr._utils.deprecation import DeprecatedName, deprecated_attribute, deprecated_parameters


def test_a_deprecated_attribute_warns_with_the_replacement():
    names = {"old": DeprecatedName("math:pi", "Use math.pi", removal="9.0")}
    message = r"module\.old is deprecated and will be removed in version 9\.0\. Use math\.pi\."
    with pytest.warns(FutureWarning, match=message):
        assert deprecated_attribute("module", "old", names) == pytest.approx(np.pi)
    with pytest.raises(AttributeError, match="module 'module' has no attribute 'other'"):
        deprecated_attribute("module", "other", names)


def test_a_deprecated_parameter_is_passed_on_under_its_new_name():
    @deprecated_parameters("9.0", colour="color")
    def paint(color="red"):
        return color

    with pytest.warns(FutureWarning, match="'colour' parameter of paint .* Use 'color' instead"):
        assert paint(colour="blue") == "blue"
    with pytest.raises(TypeError, match="pass only 'color'"):
        paint(colour="blue", color="green")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert paint(color="green") == "green"


@pytest.mark.parametrize("name", sorted(suwr._DEPRECATED))
def test_deprecated_names_of_the_package_warn_at_the_line_that_uses_them(name):
    with pytest.warns(FutureWarning, match=rf"suwr\.{name} is deprecated") as caught:
        assert getattr(suwr, name) is not None
    assert caught[0].filename == __file__
    assert name not in suwr.__all__
