"""Audits of images with patches, overlapping or not, as units."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suwr import Patches
from suwr.auditing import audit
from suwr.auditing.background import unit_layout

RNG = np.random.default_rng(0)
SHAPE = (6, 6)
IMAGES = RNG.integers(0, 4, size=(300, 36)).astype(float)


def quick(selector, groups=None, **options):
    options = {"random_state": 0, "gaps": False, "support": "product", **options}
    return audit(selector, IMAGES, groups=groups, **options)


@st.composite
def patches(draw):
    height, width = draw(st.integers(2, 9)), draw(st.integers(2, 9))
    size = draw(st.integers(1, min(height, width)))
    channels = draw(st.sampled_from([(), (3,)]))
    return Patches((height, width, *channels), size=size, stride=draw(st.integers(1, size)))


@given(patches())
def test_every_pixel_is_assigned_to_a_patch_that_contains_it(groups):
    tiles, membership = groups.tiles(), groups.membership()
    assert membership[tiles, np.arange(groups.n_columns)].all()
    assert len(np.unique(tiles)) == len(groups.names)


@given(patches())
def test_patches_without_overlap_partition_the_pixels(groups):
    apart = Patches(groups.shape, groups.size, groups.size)
    unit, names, membership = unit_layout([f"p{j}" for j in range(apart.n_columns)], apart)
    np.testing.assert_array_equal(unit == np.arange(len(names))[:, None], membership)


def by_hidden_corner(n_units):
    """Reveals the first unit and, if the hidden last pixel is bright, the second."""

    def select(X):
        masks = np.zeros((len(X), n_units), dtype=bool)
        masks[:, 0] = True
        masks[:, 1] = X[:, -1] > 1
        return masks

    return select


@pytest.mark.parametrize("stride", [2, 3])
def test_masks_over_patches_reveal_whole_patches(stride):
    groups = Patches(SHAPE, size=3, stride=stride)
    report = quick(by_hidden_corner(len(groups.names)), groups)
    assert report.leaks
    np.testing.assert_array_equal(report.witness.mask >= groups.membership()[0], True)
    assert next(iter(report.influence)) == groups.names[-1]


def test_overlapping_patches_of_a_leak_free_selector():
    groups = Patches(SHAPE, size=3, stride=1)
    membership = groups.membership()

    def select(X):
        bright = X[:, 0] > 1  # in the first patch, which is always revealed
        return membership[0] | np.where(bright[:, None], membership[35], membership[20])

    assert quick(select, groups).verdict == "no leak found"


def test_patches_of_the_selector_are_used():
    class PatchSelector:
        groups = Patches(SHAPE, size=2, stride=2)
        select = staticmethod(by_hidden_corner(9))

    report = quick(PatchSelector())
    assert report.leaks
    assert list(report.influence) == ["patch (4, 4)"]


def test_patches_must_match_the_columns():
    with pytest.raises(ValueError, match=r"need 25 columns\. Got X with 36"):
        quick(by_hidden_corner(36), Patches((5, 5)))


@pytest.mark.slow
def test_fewer_gaps_are_measured_on_wide_data():
    wide = RNG.normal(size=(120, 700))

    def one(X):
        return np.repeat(np.arange(700)[None] == 5, len(X), axis=0)

    report = audit(one, wide, random_state=0, n_probes=100)
    assert report.gaps.n_untested > 600
    assert any("were not measured" in caution for caution in report.cautions)
    drawn = audit(
        lambda X, rng: rng.random(X.shape) < 0.1, wide, random_state=0, n_draws=1000, gaps=False
    )
    assert not drawn.leaks
