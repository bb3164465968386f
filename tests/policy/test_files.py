"""Policies, saved and loaded."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almostsure import AlmostSure, solve_policy
from almostsure.errors import CorruptFile, FileError, ModelMismatch
from almostsure.files import save_tensors
from almostsure.policy.policy import Policy
from almostsure.policy.rows import Rest
from almostsure.testing import mdps


@given(mdps(), st.integers(0, 3), st.randoms(use_true_random=False))
def test_save_then_load_is_the_identity(tmp_path_factory, mdp, budget, random):
    path = tmp_path_factory.getbasetemp() / "policy.safetensors"
    policy = Policy.from_function(mdp, lambda s, k: random.choice(mdp.actions(s).tolist()), budget=budget)
    policy.save(path)
    assert Policy.load(path, mdp) == policy.load(path, mdp) == policy
    spread = Policy.from_function(mdp, lambda s: {a: 1 / len(mdp.actions(s)) for a in mdp.actions(s).tolist()})
    spread.save(path)
    assert Policy.load(path, mdp) == spread
    assert pickle.loads(pickle.dumps(spread)) == copy.deepcopy(spread) == spread


def test_a_rest_is_saved_too(coin, tmp_path):
    rest = Rest(probability=np.array([[0.5, 0.0]]), choice=np.array([0, -1]))
    policy = Policy(coin, choice=np.array([[1, 2]], np.int32), rest=rest)
    policy.save(tmp_path / "p")
    assert Policy.load(tmp_path / "p", coin) == policy
    assert Policy(coin, choice=np.array([[1, 2]], np.int32)) != policy


def test_files_of_other_models_and_damaged_files(mdp, paper, tmp_path):
    path = tmp_path / "policy"
    Policy.from_table(paper(), [0, 0]).save(path)
    with pytest.raises(ModelMismatch, match="belongs to another model"):
        Policy.load(path, mdp)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CorruptFile, match="damaged or not a policy file"):
        Policy.load(path, paper())
    with pytest.raises(FileError, match=r"cannot read|damaged"):
        Policy.load(tmp_path / "nothing", mdp)


def test_a_forged_file_is_refused(paper, tmp_path):
    mdp = paper()
    for arrays, strings in (
        ({"choice": np.array([[2, 2]], np.int32)}, {"budget": ""}),
        ({"choice": np.array([[0, 2]], np.int32)}, {"budget": "7"}),
        ({"choice": np.array([[0, 2]], np.int32)}, {"budget": "x"}),
        ({"probability": np.array([[0.5, 0.4, 1.0]])}, {"budget": ""}),
        ({"choice": np.array([[0.0, 2.0]])}, {"budget": ""}),
        ({"hello": np.zeros(1)}, {"budget": ""}),
        ({}, {"budget": ""}),
        ({"choice": np.array([[0, 2]], np.int32), "rest_choice": np.array([0, -1])}, {"budget": ""}),
    ):
        save_tensors(tmp_path / "p", kind="policy", model=mdp.fingerprint, arrays=arrays, strings=strings)
        with pytest.raises(CorruptFile, match="does not hold a policy of its model"):
            Policy.load(tmp_path / "p", mdp)


def test_an_assured_policy_must_be_one(paper, tmp_path):
    mdp, path = paper(), tmp_path / "p"
    policy = solve_policy(mdp, AlmostSure(2)).policy
    policy.save(path)
    assert Policy.load(path, mdp) == policy
    bold = {"choice": np.zeros((3, 2), np.int32) + np.array([[0, 2]], np.int32)}  # always "left"
    for claim in ({"assured": "yes"}, {}, {"assured": ""}):
        save_tensors(path, kind="policy", model=mdp.fingerprint, arrays=bold, strings={"budget": "2", **claim})
        with pytest.raises(CorruptFile, match="never overspend its budget of 2; it may"):
            Policy.load(path, mdp)
    Policy(mdp, choice=bold["choice"], budget=2).save(path)  # which does not claim to be assured
    assert Policy.load(path, mdp).act(0, 0) == 0
