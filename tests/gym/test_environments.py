"""Registered environments, and those of others with ready-made damage."""

import copy
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import almostsure as asure
from almostsure.errors import ArgumentError, MissingExtra, ModelError, ModelMismatch, UnknownName
from almostsure.gym import (
    DamageTracker,
    ModelVectorEnv,
    ShieldedEnv,
    ShieldedVectorEnv,
    damage_of,
    environment_names,
    ready,
)
from almostsure.gym.warehouse import MAP, read_floor, warehouse

NAMES = environment_names()


def small(name, **options):
    """The environment; a small sea, since a large one takes long to draw."""
    if "Archipelago" in name:
        options["size"] = 12
    return gymnasium.make(name, **options)


@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes.*:UserWarning")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_gymnasium_is_content(name, mode):
    check_env(small(name, render_mode=mode).unwrapped)


@pytest.mark.parametrize("name", NAMES)
def test_two_lines_shield_it(name):
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
    """A small version of what benchmarks/bench_gym.py does with ten million steps."""
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


@pytest.mark.parametrize("name", NAMES)
def test_pictures(name):
    env = small(name, render_mode="rgb_array")
    _, info = env.reset(seed=0)
    first = env.render()
    assert first.ndim == 3
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 20  # something is drawn
    pictures = [first]
    for _ in range(8):
        *_, terminated, _, info = env.step(env.action_space.sample(mask=info["action_mask"]))
        pictures.append(env.render())
        if terminated:
            break
    assert any(not np.array_equal(first, other) for other in pictures)


def test_damage_can_be_seen():
    env = gymnasium.make("almostsure/Paper-v0", render_mode="rgb_array")
    env.reset(seed=0)
    reds = []
    for _ in range(4):
        strip = env.render()[-22:].astype(int)
        reds.append(np.count_nonzero((strip[..., 0] > 180) & (strip[..., 1] < 100)))
        env.step(0)
    assert reds[0] == 0
    assert reds == sorted(reds)
    assert len(set(reds)) == 4


def test_a_window(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = gymnasium.make("almostsure/Warehouse-v0", render_mode="human")
    env.unwrapped._renderer.fps = 1000
    env.reset(seed=0)
    env.step(0)
    twin = copy.deepcopy(env)  # with a window of its own
    twin.step(0)
    env.close()
    twin.close()
    env.close()


@pytest.mark.parametrize("mode", ["human", "rgb_array"])
def test_pictures_need_pygame_and_text_does_not(mode, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    text = gymnasium.make("almostsure/Paper-v0", render_mode="ansi")
    text.reset(seed=0)
    assert text.render() == "(@)>[ ]\nstart, damage so far 0"
    env = gymnasium.make("almostsure/Paper-v0", render_mode=mode)

    def look():
        env.reset(seed=0)
        env.render()

    with pytest.raises(MissingExtra, match=r"pip install 'almostsure\[envs\]'"):
        look()


def test_the_warehouse_is_drawn_with_its_parcels_and_its_forklift():
    env = gymnasium.make("almostsure/Warehouse-v0", render_mode="ansi")
    env.reset(seed=2)
    text = env.render()
    assert text.count("@") == text.count("F") == text.count("A") == text.count("B") == 1
    assert pickle.loads(pickle.dumps(env)).render() == text


def test_hazard_maps_from_text():
    env = gymnasium.make("almostsure/HazardMap-v0", text="S~G", slip=0.0, goal_reward=5.0)
    assert env.unwrapped.mdp == asure.from_map("S~G", step_reward=-1.0, goal_reward=5.0)
    with pytest.raises(ModelError, match="unknown map character '%'"):
        gymnasium.make("almostsure/HazardMap-v0", text="S%G")
    with pytest.raises(UnknownName, match="unknown parameter of example 'corridor' 'slip'"):
        gymnasium.make("almostsure/Corridor-v0", slip=0.1)


@pytest.mark.parametrize("name", ["corridor", "quicksand"])
def test_one_way_cells_carry_on_whoever_stands_there(name):
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


def test_many_at_once():
    envs = gymnasium.make_vec("almostsure/HazardMap-v0", num_envs=7, slip=0.0)
    assert type(envs).__name__ == "ModelVectorEnv"
    assert envs.mdp == asure.example("hazard-map", slip=0.0)
    envs.reset(seed=0)
    assert sum(envs.step(np.full(7, 3))[3].sum() for _ in range(301)) == 7  # truncated after 300 steps


# ---------------------------------------------------------------------- the warehouse


def test_the_warehouse_pays_for_budget():
    mdp, situations = warehouse()
    assert len(situations) == mdp.num_states
    minimal = asure.minimal_budget(mdp)
    assert minimal.smallest_budget() == 0
    curve = asure.solve_policy(mdp, asure.AlmostSure(2)).curve
    assert (np.diff(curve) > 1).all()
    assert curve[0] > 0


def test_whoever_meets_the_forklift_is_bumped():
    mdp, situations = warehouse(pause=0.0)
    floor = read_floor()
    number = {at: i for i, at in enumerate(situations)}
    hit = next(at for at in situations if at and at.phase < 5 and at.robot == floor.tour[at.phase + 1])
    (outcome,) = mdp.outcomes(number[hit], "stay")
    assert (outcome.damage, outcome.reward) == (1, -1.0)
    after = situations[outcome.next_state]
    assert after.robot == hit.robot
    assert floor.tour[after.phase] == floor.tour[hit.phase]  # both stay, and the forklift turns round
    assert floor.tour[(after.phase + 1) % len(floor.tour)] != hit.robot
    assert all(at is None or floor.tour[at.phase] != at.robot for at in situations)
    assert len(MAP[0]) == 13
    with pytest.raises(ArgumentError, match="pause must be a probability below 1"):
        gymnasium.make("almostsure/Warehouse-v0", pause=1.0)


# ---------------------------------------------------------------------- environments of others

OTHERS = [
    ("FrozenLake-v1", {}, 0),
    ("FrozenLake8x8-v1", {"is_slippery": False}, 1),
    ("CliffWalking-v1", {"is_slippery": True}, 2),
    ("Taxi-v4", {}, 1),
    ("MiniGrid-LavaGapS5-v0", {}, 0),
    ("MiniGrid-LavaCrossingS9N1-v0", {"map_seed": 4}, 1),
    ("MiniGrid-DistShift1-v0", {}, 1),
]


@pytest.mark.parametrize(("name", "options", "budget"), OTHERS)
def test_ready_made_models_agree_with_the_environment(name, options, budget):
    """Every transition that random play sees is in the model: otherwise the shield would say so."""
    env = ready(name, **options).shielded(budget)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    worst = 0
    for _ in range(400):
        *_, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(env.action_masks()))))
        worst = max(worst, budget - info["remaining"])
        if terminated or truncated:
            env.reset()
    assert 0 <= worst <= budget
    twin = pickle.loads(pickle.dumps(env))
    assert twin.reset(seed=1)[1]["remaining"] == budget


def test_lava_rooms_are_enumerated_not_sampled():
    room = ready("MiniGrid-LavaGapS5-v0", map_seed=1)
    mdp = room.mdp
    assert (np.diff(mdp.outcome_ptr) == 1).all()  # deterministic
    assert set(mdp.action_names) == {"left", "right", "forward", "pickup", "drop", "toggle", "done"}
    hurts = mdp.damage > 0
    assert hurts.any()
    assert mdp.is_terminal()[mdp.successor[hurts]].all()
    assert set(mdp.choice_action[mdp.outcome_choices()[hurts]]) == {2}  # only forward leads into lava
    solution = asure.solve_policy(mdp, asure.AlmostSure(0), discount=0.99)
    assert solution.value > 0.8


def test_another_room_is_refused():
    one, two = ready("MiniGrid-LavaGapS7-v0", map_seed=0), ready("MiniGrid-LavaGapS7-v0", map_seed=2)
    env = ShieldedEnv(two.make(), one.shield(), 0, state_of=one.state_of, observe="dict")
    with pytest.raises(ModelMismatch, match="the room's map is not the one of the model"):
        env.reset(seed=0)


@pytest.mark.parametrize("name", ["MiniGrid-DoorKey-5x5-v0", "MiniGrid-Dynamic-Obstacles-5x5-v0"])
def test_rooms_with_more_in_them_are_refused(name):
    with pytest.raises(ModelError, match="is no lava room"):
        ready(name)


def test_lava_rooms_need_minigrid(monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(MissingExtra, match=r"pip install 'almostsure\[envs\]'"):
        ready("MiniGrid-LavaGapS5-v0")


def test_unknown_environments_say_what_to_do():
    with pytest.raises(UnknownName, match=r"'CartPole-v1'\. There are: .*FrozenLake-v1, .*Taxi.*MiniGrid-Lava"):
        ready("CartPole-v1")
    with pytest.raises(UnknownName, match=r"'FrozenLak-v1'\. Did you mean 'FrozenLake-v1'\?"):
        ready("FrozenLak-v1")


def test_definitions_serve_from_gymnasium_too():
    env = gymnasium.make("CliffWalking-v1")
    mdp = asure.from_gymnasium("CliffWalking-v1", damage_of(env))
    assert mdp == ready("CliffWalking-v1").mdp
    tracked = DamageTracker(env, damage_of(env))
    tracked.reset(seed=0)
    assert tracked.step(1)[4]["damage"] == 1
    hole = damage_of(gymnasium.make("FrozenLake-v1"))
    assert [hole(4, 2, 5, 0, True), hole(14, 2, 15, 1, True)] == [1, 0]
