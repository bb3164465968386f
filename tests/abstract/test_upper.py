"""``UpperBudget``: look-ups, text and files."""

import numpy as np
import pytest

import almostsure as asure
from almostsure.abstract import UpperBudget
from almostsure.errors import CorruptFile, ModelMismatch, UnknownName
from almostsure.files import save_tensors

from .systems import arrival, double_integrator


def test_questions():
    model = double_integrator(initial=((-0.1, -0.1), (0.1, 0.1)))
    upper = asure.minimal_budget(model)
    assert upper.upper_bound
    assert upper.of((0.0, 0.0)) == upper.of(model.grid.cell((0.0, 0.0)))
    assert upper.of((7.0, 0.0)) == asure.INFINITE
    assert upper.patterns((7.0, 0.0)) == {}
    assert set(upper.patterns((0.0, 0.0))) <= {(0,), (1,), (2,)}
    assert 0 < upper.safe_share(0) <= upper.safe_share(5) < 1
    assert sum(upper.histogram().values()) == model.num_cells
    assert "upper bounds by the level engine; verified" in repr(upper)
    assert "a budget of at most" in repr(upper)
    with pytest.raises(UnknownName, match="unknown cell 999"):
        upper.of(999)


def test_save_and_load(tmp_path):
    model, path = arrival(), tmp_path / "arrival.safetensors"
    upper = asure.minimal_budget(model)
    asure.Shield(upper).save(path)
    again = UpperBudget.load(path, arrival())
    assert np.array_equal(again.of_state, upper.of_state)
    assert np.array_equal(again.needs, upper.needs)
    with pytest.raises(ModelMismatch, match="belongs to another model"):
        UpperBudget.load(path, arrival((5, 41)))


def test_files_that_claim_too_little_are_refused(tmp_path):
    model, path = arrival(), tmp_path / "arrival.safetensors"
    values = np.zeros(model.num_cells, np.int32)
    save_tensors(path, kind="upper", model=model.fingerprint, arrays={"of_state": values}, strings={})
    with pytest.raises(CorruptFile, match="does not hold upper budgets of its system: the value of cell"):
        UpperBudget.load(path, model)
    save_tensors(path, kind="upper", model=model.fingerprint, arrays={"other": values}, strings={})
    with pytest.raises(CorruptFile, match="must hold of_state"):
        UpperBudget.load(path, model)
