import types
import warnings

import pytest

from suwr._utils.validation import warn_caller


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_the_place_is_the_line_outside_of_the_package(depth):
    source = "def call(depth):\n    return call(depth - 1) if depth else warn('odd', UserWarning)\n"
    module = types.ModuleType("suwr.inner")
    module.warn = warn_caller
    exec(compile(source, "inner.py", "exec"), vars(module))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        module.call(depth)
    assert [(w.filename, str(w.message)) for w in found] == [(__file__, "odd")]


def test_modules_with_a_similar_name_are_outside():
    module = types.ModuleType("suwr_experiments.inner")
    module.warn = warn_caller
    exec(compile("def call():\n    warn('odd', UserWarning)\n", "inner.py", "exec"), vars(module))
    with pytest.warns(UserWarning, match="odd") as found:
        module.call()
    assert found[0].filename == "inner.py"
