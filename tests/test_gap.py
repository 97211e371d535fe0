"""A gap of one output that others fill: `experiments/gap.py`."""

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gap(experiments):
    return experiments("gap")


@pytest.mark.parametrize("num_outputs", [2, 3])
@pytest.mark.parametrize("name", ["convolution", "lmc"])
def test_a_joint_posterior_is_exact_in_a_gap(gap, name, num_outputs):
    columns = [("given", "joint")]
    for seed in range(3):
        _, excess = gap.row(name, num_outputs, seed, columns)
        assert excess <= 0.05


def test_a_factorised_posterior_is_too_sure_in_a_gap(gap):
    _, excess = gap.row("convolution", 2, 0, [("given", "factorised")])
    assert excess > 0.5
