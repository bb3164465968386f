"""Upper budgets from anywhere are accepted exactly where they are upper budgets."""

import numpy as np
import pytest

import almostsure as asure
from almostsure.errors import ArgumentError, CertificateError

from .systems import arrival, double_integrator


@pytest.mark.parametrize("model", [double_integrator((9, 8)), arrival()], ids=str)
def test_tampered_values_are_refused(model):
    upper = asure.minimal_budget(model)
    again = asure.check_upper(model, upper.of_state)
    assert again.upper_bound
    assert np.array_equal(again.needs, upper.needs)
    positive = np.flatnonzero((upper.of_state > 0) & ~model.goal_cells)
    for cell in positive[::5].tolist():
        values = upper.of_state.copy()
        values[cell] = 0 if values[cell] == asure.INFINITE else values[cell] - 1
        with pytest.raises(CertificateError, match="is too small: it claims"):
            asure.check_upper(model, values)


def test_larger_values_are_accepted_where_they_are_consistent():
    model = arrival()
    exact = asure.minimal_budget(model).of_state
    more = np.where(exact == asure.INFINITE, exact, exact + 5)
    assert asure.check_upper(model, more).of_state.tolist() == more.tolist()
    assert asure.check_upper(model, np.full(model.num_cells, np.inf)).smallest_budget() == asure.INFINITE


def test_values_that_are_none_are_refused():
    model = arrival()
    with pytest.raises(ArgumentError, match=r"values must be one number per state \(200\); got shape \(3,\)"):
        asure.check_upper(model, [1, 2, 3])
    with pytest.raises(ArgumentError, match="values must be whole numbers"):
        asure.check_upper(model, np.full(200, 0.5))
    with pytest.raises(ArgumentError, match="values must be 0 … 2147483646, or ∞; got -1 at "):
        asure.check_upper(model, np.full(200, -1))
