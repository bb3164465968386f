"""``MonitoredShield``: shields of products, for runs of the base model."""

import gymnasium
import numpy as np
import pytest

import almostsure as asure
from almostsure import Shield, minimal_budget, product
from almostsure.errors import ArgumentError, ModelMismatch, NoSafeAction
from almostsure.gym import ShieldedEnv, ShieldedVectorEnv, to_gymnasium
from almostsure.model import ENDED, FORBIDDEN, Monitor, Refill, SecondBudget, Steps
from almostsure.shield import Guard, HorizonShield, MonitoredShield

NOISY = 2  # going south is noisy
WEST = 3


def quiet(mdp, budget):
    return product(mdp, SecondBudget(lambda s, a, *_: int(a == NOISY), budget))


@pytest.fixture
def mdp():
    return asure.example("quicksand")


def test_an_environment_is_guarded_without_seeing_the_product(mdp):
    minimal = minimal_budget(quiet(mdp, 4))
    need = minimal.smallest_budget()
    env = ShieldedEnv(to_gymnasium(mdp), Shield(minimal), need)
    rng = np.random.default_rng(0)
    for episode in range(20):
        _, info = env.reset(seed=episode)
        noise = 0
        for _ in range(60):
            action = int(rng.choice(np.flatnonzero(info["action_mask"])))
            noise += action == NOISY
            _, _, terminated, truncated, info = env.step(action)
            assert info["remaining"] >= 0
            if terminated or truncated:
                break
        assert noise <= 4


def test_many_runs_are_each_one_run(mdp):
    shield = MonitoredShield(Shield(minimal_budget(quiet(mdp, 4))))
    assert isinstance(shield, Guard)
    need = shield.guard.minimal.smallest_budget()
    rng = np.random.default_rng(1)
    runs = shield.begin(np.full(16, mdp.initial_state), need)
    for _ in range(25):
        masks = shield.mask(*runs)
        action = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        choice = np.array([mdp.choice(int(s), int(a)) for s, a in zip(runs[0], action, strict=True)])
        outcome = rng.integers(mdp.outcome_ptr[choice], mdp.outcome_ptr[choice + 1])
        after, damage = mdp.successor[outcome].astype(np.int64), mdp.damage[outcome].astype(np.int64)
        ahead = shield.after(runs, action, after, damage)
        for i in range(0, 16, 5):
            one = tuple(int(column[i]) for column in runs)
            assert shield.allowed(*one).tolist() == np.flatnonzero(masks[i]).tolist()
            single = shield.after(one, int(action[i]), int(after[i]), int(damage[i]))
            assert single == tuple(int(column[i]) for column in ahead)
        runs = ahead
        assert (runs[1] >= 0).all()


def test_a_vector_of_environments_and_a_tank():
    rows = [(s, a, min(max(s + (1, -1)[a], 0), 4), 1.0, float(s == 3 and a == 0), 0) for s in range(4) for a in (0, 1)]
    line = asure.from_transitions(*zip(*rows, strict=True), terminal=[4], labels={"station": [2]})
    shield = Shield(minimal_budget(product(line, Refill(cost=1, capacity=3, at="station"))))
    env = ShieldedVectorEnv(gymnasium.vector.SyncVectorEnv([lambda: to_gymnasium(line)] * 4), shield, 0)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(100):
        masks = env.action_masks()
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        env.step(actions)
    assert masks.any(axis=1).all()


def test_after_the_end_of_the_monitor_all_actions_are_allowed():
    pit = asure.from_transitions([0], [0], [0], [1], [0], [1])
    shield = MonitoredShield(Shield(minimal_budget(product(pit, Steps(2)))))
    run = shield.begin(0, 2)
    for _ in range(5):
        run = shield.after(run, 0, 0, 1)
    assert run == (0, 0, 0)
    assert shield.allowed(*run).tolist() == [0]
    assert shield.mask(np.array([0, 0]), np.array([2, 0]), np.array([1, 0])).tolist() == [[True], [True]]
    assert shield.within(1) is shield


def test_entering_a_state_that_the_monitor_forbids_is_an_error():
    base = two_damages()
    forbids = Monitor("x", lambda memory, s, a, s2, d, labels: FORBIDDEN if d else memory)
    shield = MonitoredShield(Shield(minimal_budget(product(base, forbids))))
    with pytest.raises(
        NoSafeAction, match="0 at state 0 led to a state that the monitor forbids; no shield allows it"
    ) as caught:
        shield.after(shield.begin(0, 3), 0, 0, 1)
    assert caught.value.state == 0
    assert repr(shield).startswith("<MonitoredShield of <Shield")


def test_refusals(mdp):
    with pytest.raises(ArgumentError, match=r"^guard must be the guard of a product, .* got Shield$"):
        MonitoredShield(Shield(minimal_budget(mdp)))
    shield = MonitoredShield(Shield(minimal_budget(quiet(mdp, 4))))
    other = int(np.flatnonzero(np.arange(mdp.num_states) != mdp.initial_state)[0])
    where = rf"{mdp.describe_state(other)} is not one of them\. Build the product of a model that starts there\.$"
    for states in (other, [mdp.initial_state, other]):
        with pytest.raises(NoSafeAction, match=rf"^runs begin in the initial states of the model; {where}") as caught:
            shield.begin(states, 9)
        assert caught.value.state == other
    for memory in range(7, 150):
        with pytest.raises(ModelMismatch, match=f"is never reached with memory {memory}"):
            shield.allowed(mdp.initial_state, 9, memory)


def test_answers_are_cached_only_if_the_guard_says_that_they_never_change(mdp):
    class Changing:
        """A guard without ``is_fixed``."""

        def __init__(self, shield):
            self.shield, self.space, self.carries = shield, shield.space, shield.carries

        def __getattr__(self, name):
            if name == "is_fixed":
                raise AttributeError(name)
            return getattr(self.shield, name)

    shield = Shield(minimal_budget(quiet(mdp, 4)))
    assert MonitoredShield(shield).is_fixed
    assert not MonitoredShield(Changing(shield)).is_fixed


def two_damages():
    """Staying does damage 0 or 1, and both outcomes lead to the same state."""
    return asure.from_transitions([0, 0, 0], [0, 0, 1], [0, 0, 1], [0.5, 0.5, 1], [1, 1, 0], [0, 1, 0], terminal=[1])


def test_the_monitor_reads_the_damage_of_the_base():
    harsh = Monitor("x", lambda memory, s, a, s2, d, labels: ("x", 5 if a == 0 and d == 0 else 0))
    shield = MonitoredShield(Shield(minimal_budget(product(two_damages(), harsh))))
    run = shield.begin(0, 5)
    assert shield.allowed(*run).tolist() == [0, 1]
    run = shield.after(run, 0, 0, 0)
    assert run[1] == 0
    assert shield.allowed(*run).tolist() == [1]
    stop = Monitor("x", lambda memory, s, a, s2, d, labels: (ENDED, 3) if d else memory)
    shield = MonitoredShield(Shield(minimal_budget(product(two_damages(), stop))))
    assert shield.after((0, 3, 1), 0, 0, 1) == (0, 0, 0)
    assert shield.after((0, 3, 1), 0, 0, 0) == (0, 3, 1)
    every_second = Monitor(False, lambda hit, s, a, s2, d, labels: (not hit, d if hit else 0) if d else hit)
    shield = MonitoredShield(Shield(minimal_budget(product(two_damages(), every_second), cap=4)))
    memory = shield._memory[shield.guard.mdp.initial_state]
    run = (0, 2, memory)
    for _ in range(2):
        run = shield.after(run, 0, 0, 1)
    assert run == (0, 1, memory)


def test_forbidden_states_stay_forbidden_in_further_products():
    base = asure.from_transitions([0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 1, 1], [0, 0, 0], [0, 0, 0])
    inner = product(base, SecondBudget(lambda s, a, *_: int(a == 1), budget=0))
    assert minimal_budget(product(inner, Steps(3))).of_choice[:2].tolist() == [0, asure.INFINITE]
    assert inner.with_damage(0).label("forbidden").any()
    assert minimal_budget(inner.with_damage(0)).of_choice[:2].tolist() == [0, asure.INFINITE]


def test_products_of_products_guard_runs_of_the_base(mdp):
    """Two nested products behave like one with a monitor that has both memories."""
    nested = product(quiet(mdp, 4), SecondBudget(lambda s, a, *_: int(a == WEST), budget=3))
    both = Monitor(
        (4, 3),
        lambda left, s, a, s2, d, labels: (
            FORBIDDEN if min(left[0] - (a == NOISY), left[1] - (a == WEST)) < 0 else
            ((left[0] - (a == NOISY), left[1] - (a == WEST)), None)
        ),
    )  # fmt: skip
    shields = [MonitoredShield(Shield(minimal_budget(model))) for model in (nested, product(mdp, both))]
    assert minimal_budget(nested).smallest_budget() == minimal_budget(product(mdp, both)).smallest_budget()
    rng, need = np.random.default_rng(2), minimal_budget(nested).smallest_budget() + 1
    for _ in range(10):
        runs = [shield.begin(mdp.initial_state, need) for shield in shields]
        for _ in range(30):
            first, second = (shield.allowed(*run).tolist() for shield, run in zip(shields, runs, strict=True))
            assert first == second
            action = int(rng.choice(first))
            outcomes = list(mdp.outcomes(runs[0][0], action))
            outcome = outcomes[rng.integers(len(outcomes))]
            step = action, outcome.next_state, outcome.damage
            runs = [shield.after(run, *step) for shield, run in zip(shields, runs, strict=True)]
            assert runs[0][:2] == runs[1][:2]
    env = ShieldedEnv(to_gymnasium(mdp), Shield(minimal_budget(nested)), need)
    assert env.reset(seed=0)[1]["remaining"] == need


def test_the_end_of_an_inner_monitor_ends_the_outer_one():
    pit = asure.from_transitions([0], [0], [0], [1], [0], [1])
    shield = MonitoredShield(Shield(minimal_budget(product(product(pit, Steps(2)), SecondBudget(1, 5)))))
    run = shield.begin(0, 2)
    for _ in range(4):
        run = shield.after(run, 0, 0, 1)
    assert run[1:] == (0, 0)


def test_every_guard_of_a_product_is_tracked_and_a_product_can_be_played_itself(mdp):
    counted = quiet(mdp, 4)
    need = minimal_budget(counted).smallest_budget()
    guards = [
        (asure.RiskShield(counted, need, 0.3), ("remaining", "risk", "memory")),
        (HorizonShield(minimal_budget(counted, horizon=40)), ("remaining", "steps_left", "memory")),
    ]
    rng = np.random.default_rng(3)
    for guard, carries in guards:
        env = ShieldedEnv(to_gymnasium(mdp, max_episode_steps=20), guard, need, observe="dict")
        assert env.guarded.guard.carries == carries
        for episode in range(5):
            _, info = env.reset(seed=episode)
            assert info.get("steps_left", 20) == 20
            ended = False
            while not ended:
                _, _, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
                ended = terminated or truncated
    itself = ShieldedEnv(to_gymnasium(counted), Shield(minimal_budget(counted)), need)
    assert itself.guarded.guard.carries == ("remaining",)


def test_a_horizon_ends_the_episode():
    pit = asure.from_transitions([0, 0], [0, 1], [0, 0], [1, 1], [0, 0], [1, 0])
    env = ShieldedEnv(to_gymnasium(pit), HorizonShield(minimal_budget(pit, horizon=2)), 0)
    env.reset(seed=0)
    assert env.step(1)[3] is False
    assert env.step(1)[3] is True
    with pytest.raises(Exception, match=r"reset\(\)"):
        env.step(1)
