"""The registered environments of this package."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import almostsure as asure
from almostsure.errors import ModelError, UnknownName
from almostsure.gym import (
    ModelVectorEnv,
    ShieldedEnv,
    ShieldedVectorEnv,
    environment_names,
)

from ..made import small

NAMES = environment_names()


@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes.*:UserWarning")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_the_checker_of_gymnasium_passes(name, mode):
    check_env(small(name, render_mode=mode).unwrapped)


@pytest.mark.parametrize("name", NAMES)
def test_every_environment_can_be_shielded_by_its_model(name):
    env = small(name)
    mdp = env.unwrapped.mdp
    shield = asure.Shield(asure.minimal_budget(mdp))
    env = ShieldedEnv(env, shield, shield.minimal.smallest_budget() + 1)
    _, info = env.reset(seed=0)
    for _ in range(300):
        *_, terminated, truncated, info = env.step(env.action_space.sample(mask=info["action_mask"]))
        assert info["remaining"] >= 0
        if terminated or truncated:
            _, info = env.reset()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("more", [0, 2])
def test_many_random_steps_never_overspend(name, more):
    """As benchmarks/bench_gym.py, with fewer steps."""
    mdp = small(name).unwrapped.mdp
    shield = asure.Shield(asure.minimal_budget(mdp))
    budget = shield.minimal.smallest_budget() + more
    envs = ShieldedVectorEnv(ModelVectorEnv(mdp, 200, max_episode_steps=40), shield, budget)
    rng = np.random.default_rng(0)
    _, infos = envs.reset(seed=0)
    for _ in range(100):
        masks = infos["action_mask"]
        assert masks.any(axis=1).all()
        _, _, _, _, infos = envs.step((rng.random(masks.shape) * masks).argmax(axis=1))
        assert (infos["remaining"] >= 0).all()
    assert envs.ledger.episodes >= 200
    assert envs.ledger.worst <= budget
    assert not envs.ledger.violations


def test_hazard_maps_from_text():
    env = gymnasium.make("almostsure/HazardMap-v0", text="S~G", slip=0.0, goal_reward=5.0)
    assert env.unwrapped.mdp == asure.from_map("S~G", step_reward=-1.0, goal_reward=5.0)
    with pytest.raises(ModelError, match="unknown map character '%'"):
        gymnasium.make("almostsure/HazardMap-v0", text="S%G")
    with pytest.raises(UnknownName, match="unknown parameter of example 'corridor' 'slip'"):
        gymnasium.make("almostsure/Corridor-v0", slip=0.1)


@pytest.mark.parametrize("name", ["corridor", "quicksand"])
def test_all_actions_of_one_way_cells_have_the_same_outcomes(name):
    """Every state has every action, for agents without masks; budgets and values are those of the example."""
    plain = asure.example(name)
    mdp = gymnasium.make(f"almostsure/{name.title()}-v0").unwrapped.mdp
    living = ~mdp.is_terminal()
    assert (np.diff(mdp.choice_ptr)[living] == 4).all()
    assert (np.diff(plain.choice_ptr)[living] < 4).any()
    assert np.array_equal(asure.minimal_budget(mdp).of_state, asure.minimal_budget(plain).of_state)
    budget = asure.minimal_budget(plain).smallest_budget() + 1
    values = [asure.solve_policy(model, asure.AlmostSure(budget)).value for model in (mdp, plain)]
    assert values[0] == pytest.approx(values[1])
    state = next(s for s in range(plain.num_states) if plain.actions(s).tolist() == [1])
    assert mdp.outcomes(state, "west") == plain.outcomes(state, "east")


def test_the_module_form_needs_no_import():
    program = "import gymnasium\nprint(gymnasium.make('almostsure.gym:almostsure/Paper-v0').reset(seed=0)[0])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_make_vec_makes_a_model_vector():
    envs = gymnasium.make_vec("almostsure/HazardMap-v0", num_envs=7, slip=0.0)
    assert type(envs).__name__ == "ModelVectorEnv"
    assert envs.mdp == asure.example("hazard-map", slip=0.0)
    envs.reset(seed=0)
    assert sum(envs.step(np.full(7, 3))[3].sum() for _ in range(301)) == 7  # truncated after 300 steps
