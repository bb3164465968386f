"""The properties of the examples, verified with a plain solver of the augmented model."""

from types import SimpleNamespace

import numpy as np
import pytest

from almostsure.errors import ArgumentError, FileError, ModelError, UnknownName
from almostsure.model.build import examples as module
from almostsure.model.build.examples import description, example, example_names, examples
from almostsure.model.build.grid import from_map
from almostsure.model.source import as_model

NEVER = 60  # an infinite budget: larger than any finite one here


def budgets(mdp):
    """k* of states and of choices by iterating the operator from 0."""
    k = np.zeros(mdp.num_states, np.int64)
    while True:
        of_choice = np.maximum.reduceat(k[mdp.successor] + mdp.damage, mdp.outcome_ptr[:-1])
        new = np.minimum(np.minimum.reduceat(of_choice, mdp.choice_ptr[:-1]), NEVER)
        if np.array_equal(new, k):
            return k, np.minimum(of_choice, NEVER)
        k = new


def returns(mdp, budget, *, start=0.0, tolerance=1e-7, sweeps=4000):
    """The best return of every state with budget 0 … budget, by value iteration on each layer."""
    k, of_choice = budgets(mdp)
    layers = []
    for minimal in range(budget + 1):
        known = np.full(mdp.num_outcomes, -np.inf)
        for d in range(1, min(mdp.max_damage, minimal) + 1):
            known = np.where(mdp.damage == d, layers[minimal - d][mdp.successor], known)
        value = np.where(k <= minimal, start, -np.inf)
        value[mdp.is_terminal()] = 0
        for _ in range(sweeps):
            ahead = np.where(mdp.damage == 0, value[mdp.successor], known)
            quality = np.add.reduceat(mdp.probability * (mdp.reward + ahead), mdp.outcome_ptr[:-1])
            new = np.maximum.reduceat(np.where(of_choice <= minimal, quality, -np.inf), mdp.choice_ptr[:-1])
            alive = np.isfinite(new)
            done = np.abs(new[alive] - value[alive]).max() < tolerance
            value = new
            if done:
                break
        else:
            pytest.fail(f"value iteration has not converged with budget {minimal}")
        layers.append(value)
    return np.array(layers)


def greedy(mdp):
    """The choice that the best unconstrained policy plays in each state."""
    value = np.where(mdp.is_terminal(), 0.0, -500.0)
    for _ in range(4000):
        quality = np.add.reduceat(mdp.probability * (mdp.reward + value[mdp.successor]), mdp.outcome_ptr[:-1])
        value = np.maximum.reduceat(quality, mdp.choice_ptr[:-1])
    return np.array([max(mdp.choices(s), key=quality.__getitem__) for s in range(mdp.num_states)])


def worst_damage(mdp, policy):
    """The worst-case damage of a stationary policy; NEVER and above mean without bound."""
    k = np.zeros(mdp.num_states, np.int64)
    for _ in range(2 * NEVER * mdp.num_states):
        new = np.minimum(np.maximum.reduceat(k[mdp.successor] + mdp.damage, mdp.outcome_ptr[:-1])[policy], NEVER)
        if np.array_equal(new, k):
            break
        k = new
    return k


@pytest.mark.parametrize("name", example_names())
def test_every_example_is_a_model_with_a_description(name):
    mdp = example(name)
    assert mdp == example(name)
    assert mdp.state_names is not None
    assert mdp.is_terminal().any()
    assert 20 < len(description(name)) < 100


def test_the_papers_example():
    mdp = example("paper")
    assert mdp.outcomes("circle", "left") == [(0, 1.0, 1.0, 1)]
    assert mdp.outcomes("circle", "right") == [(1, 1.0, 0.0, 0)]
    assert mdp.initial_state == 0
    second = example("paper", damage_probability=0.6)
    assert second.outcomes("circle", "left") == [(0, 0.4, 1.0, 0), (0, 0.6, 1.0, 1)]
    assert example("paper", damage_probability=0).max_damage == 0
    with pytest.raises(ModelError, match=r"damage_probability must lie in 0 … 1; got 1.5"):
        example("paper", damage_probability=1.5)


def test_the_hazard_map_rewards_every_further_unit_of_budget():
    mdp = example("hazard-map")
    assert (mdp.layout.rows, mdp.layout.columns) == (12, 12)
    start = mdp.initial_state
    curve = returns(mdp, 7, start=-200.0)[:, start]
    assert budgets(mdp)[0][start] == 0
    assert (np.diff(curve) > 0.01).all()
    assert (np.diff(curve) > 1).sum() >= 4
    assert curve[0] > 0


def test_the_hazard_map_has_several_budgets_and_its_best_route_overspends():
    mdp = example("hazard-map")
    k, _ = budgets(mdp)
    assert set(k) == {0, 1, 2, NEVER}
    assert worst_damage(mdp, greedy(mdp))[mdp.initial_state] > 7


def test_the_archipelago_has_better_treasures_for_larger_budgets():
    mdp = example("archipelago")
    assert (mdp.layout.rows, mdp.layout.columns) == (40, 40)
    start = mdp.initial_state
    curve = returns(mdp, 9, tolerance=1e-4)[:, start]
    assert budgets(mdp)[0][start] == 0
    assert (np.diff(curve) > 5).sum() >= 4
    assert curve[-1] == pytest.approx(60, abs=0.1)
    assert (budgets(mdp)[0] == NEVER).any()
    assert len(np.unique(budgets(mdp)[0])) > 5


def test_the_archipelago_comes_in_other_sizes():
    assert example("archipelago", size=10).num_states == 100
    with pytest.raises(ModelError, match="size must be at least 10"):
        example("archipelago", size=5)
    with pytest.raises(ModelError, match="size must be at most 90"):
        example("archipelago", size=200)


def test_in_the_corridor_one_step_masking_runs_into_a_dead_end():
    mdp = example("corridor")
    k, of_choice = budgets(mdp)
    start, budget = mdp.initial_state, 2
    assert k[start] == 0
    state, steps = start, 0
    while mdp.actions(state).size > 1 or state == start:  # walk east, as long as the next step costs nothing
        (outcome,) = mdp.outcomes(state, "east")
        assert outcome.damage <= budget
        state, steps = outcome.next_state, steps + 1
    assert of_choice[mdp.choice(start, "east")] == 3 > budget
    while mdp.outcomes(state, "east")[0].damage <= budget:
        state, steps = mdp.outcomes(state, "east")[0].next_state, steps + 1
    assert steps > 1
    assert mdp.actions(state).tolist() == [mdp.action("east")]  # the only action overspends
    curve = returns(mdp, 3, start=-200.0)[:, start]
    assert curve.tolist() == [9, 9, 9, 13]


def test_quicksand_has_regions_without_a_finite_budget():
    mdp = example("quicksand")
    k, _ = budgets(mdp)
    assert k[mdp.initial_state] == 2
    lost = k == NEVER
    places = [mdp.layout.place(state) for state in range(mdp.num_states)]
    pits = np.array([mdp.layout.text[row][column] == "X" for row, column in places])
    assert lost[pits].all()
    assert (lost & ~pits).sum() >= 5
    assert (~lost & (k > 0)).sum() > 2


@pytest.mark.parametrize("name", ["hazard-map", "corridor", "quicksand"])
def test_docstrings_show_the_maps(name):
    shown = examples[name].__doc__
    for row in module.map_of(name):
        assert row in shown
    assert example(name).layout.text == tuple(module.map_of(name))


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(UnknownName, match=r"'hazardmap'\. Did you mean 'hazard-map'\? There are: paper, "):
        example("hazardmap")
    with pytest.raises(UnknownName, match=r"unknown example \[\]\. There are: paper, hazard-map"):
        example([])
    with pytest.raises(UnknownName, match=r"unknown parameter of example 'paper' 'damage_probabilty'\. Did you mean"):
        example("paper", damage_probabilty=0.6)
    with pytest.raises(UnknownName, match="It has none"):
        example("corridor", length=3)


# ---------------------------------------------------------------------- names of models


def test_models_names_and_files_are_models(tmp_path):
    mdp = example("corridor")
    assert as_model(mdp) is mdp
    assert as_model("corridor") == mdp
    (tmp_path / "map.txt").write_text("S.\n.G\n")
    assert as_model(tmp_path / "map.txt") == from_map("S.\n.G")
    assert as_model(str(tmp_path / "map.txt")) == from_map("S.\n.G")


def test_a_saved_model_is_found_by_its_path(tmp_path):
    mdp = example("quicksand")
    mdp.save(tmp_path / "model.umb")
    assert as_model(tmp_path / "model.umb") == mdp


def test_unknown_models_are_refused(tmp_path):
    with pytest.raises(UnknownName, match=r"unknown model 'quiksand'\. Did you mean 'quicksand'\? Name an example"):
        as_model("quiksand")
    with pytest.raises(FileError, match=r"must be read with from_prism\(path, damage=…\)"):
        as_model("model.prism")
    with pytest.raises(FileError, match=r"cannot read the map .*absent.txt: No such file"):
        as_model(tmp_path / "absent.txt")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="must be UTF-8 text"):
        as_model(tmp_path / "binary.txt")
    with pytest.raises(ArgumentError, match="a model must be an MDP, an example's name or a path; got int"):
        as_model(5)
    with pytest.raises(ArgumentError, match=r"got SimpleNamespace\. from_gymnasium\(env\) reads .*; explore"):
        as_model(SimpleNamespace(observation_space=None))
