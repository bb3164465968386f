"""Models of simulators that can be copied."""

import math
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

import almostsure as asure
from almostsure.cli.output import described
from almostsure.errors import ArgumentError, Interrupted, LimitReached, ModelError, ModelMismatch, UnknownName
from almostsure.gym import DamageTracker, ShieldedEnv, ShieldedVectorEnv
from almostsure.learn import ByName, EnvSampler, explore
from almostsure.model import Steps, product
from almostsure.shield import HorizonShield


class Room(gymnasium.Env):
    """A walk in a 4 × 4 room with dictionary observations; a hole hurts, the far corner ends."""

    observation_space = Dict({"at": Box(0, 3, (2,), int), "steps": Discrete(2)})
    action_space = Discrete(4)

    def __init__(self, chance: float = 0.0) -> None:
        self.chance = chance

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = np.array([0, 0])
        return self._seen(), {}

    def _seen(self):
        return {"at": self.at.copy(), "steps": 0}

    def step(self, action):
        move = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)][action])
        if self.np_random.random() < self.chance:
            move = -move
        self.at = np.clip(self.at + move, 0, 3)
        hurt = int(tuple(self.at) in {(1, 1), (2, 1)})
        over = bool((self.at == 3).all())
        return self._seen(), float(over), over, False, {"cost": hurt}


def test_toy_text_is_what_its_table_says():
    env = gymnasium.make("CliffWalking-v1")
    table = asure.from_gymnasium(env, lambda s, a, s2, r, terminated: int(r == -100))
    model = explore(env)
    assert asure.minimal_budget(model).smallest_budget() == asure.minimal_budget(table).smallest_budget()
    found = asure.solve_policy(model, asure.AlmostSure(1)).value
    assert found == pytest.approx(asure.solve_policy(table, asure.AlmostSure(1)).value)


def test_a_time_limit_does_not_truncate_the_exploration_and_is_kept():
    env = gymnasium.make("CliffWalking-v1", max_episode_steps=3)
    shield = asure.Shield(asure.minimal_budget(explore(env)))
    assert (shield.mdp.num_states, env.spec.max_episode_steps) == (38, 3)
    env = ShieldedEnv(env, shield, 0)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]  # truncated


def test_rewards_that_are_not_finite_are_refused():
    env = gymnasium.wrappers.TransformReward(Room(), lambda reward: np.nan)
    with pytest.raises(ModelError, match="reward must be a finite number; got nan after action 0 from "):
        explore(env)


def test_an_explored_model_shields_its_environment():
    model = explore(Room())
    assert model.num_states == 16
    env = ShieldedEnv(Room(), asure.Shield(asure.minimal_budget(model)), 0)
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=0)
    for _ in range(300):
        _, _, terminated, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        assert info["damage"] == 0
        if terminated:
            _, info = env.reset()


class Both(Room):
    """The room whose damage and cost differ."""

    def step(self, action):
        *shown, info = super().step(action)
        return *shown, {"damage": 3 * info["cost"], **info}


def test_damage_is_what_was_asked_for():
    for damage, most in (("damage", 3), ("cost", 1), ("5 if reward>0", 5), (lambda *_: 2, 2)):
        assert explore(Both(), damage=damage).max_damage == most
        assert explore(DamageTracker(Both(), damage)).max_damage == most
    with pytest.raises(ModelError, match=r"info\['damage'\] and info\['cost'\] must agree, .*; got 3 and 1\."):
        explore(Both())
    with pytest.raises(ModelError, match=r"info must hold the damage under 'damage'; it has \['cost'\] .* Pass dam"):
        explore(Room(), damage="damage")
    with pytest.raises(ModelError, match=r"info must hold the damage under 'damage' or 'cost'; it has nothing"):
        explore(gymnasium.make("Blackjack-v1"))
    with pytest.raises(ModelError, match="damage must be a function of"):
        explore(Room(), damage=lambda state: 1)


class Rotten(Room):
    """Fails at the reset, or at a step, as users' code may."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self.rotten = at

    def reset(self, *, seed=None, options=None):
        if self.rotten == "reset":
            raise TypeError("a float is required")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if self.rotten == "step" and tuple(self.at) == (0, 1):
            raise TypeError("a float is required")
        return super().step(action)


@pytest.mark.parametrize(
    ("env", "options", "message"),
    [
        (Rotten("reset"), {}, r"^the environment failed at reset\(seed=0\): TypeError: a float is required$"),
        (
            Rotten("step"),
            {},
            r"^the environment failed at step\(0\), after it showed {'at': array\(\[0, 1\]\), 'steps': 0}: TypeError",
        ),
        (
            Room(),
            {"key": lambda seen: seen["nowhere"]},
            r"^key failed for the observation {'at': .*: KeyError: 'nowhere'$",
        ),
        (
            Room(),
            {"damage": lambda s, a, s2, r, over: s["wet"]},
            r"^damage failed for {'at': .*}, 0, .*: KeyError: 'wet'$",
        ),
        (
            Room(),
            {"get_state": lambda env: env.nowhere, "set_state": print},
            r"^get_state failed: AttributeError: .*'nowhere'$",
        ),
        (
            Room(),
            {"get_state": lambda env: env.at, "set_state": lambda env, at: at["x"]},
            r"^set_state failed for a value of get_state: IndexError: ",
        ),
    ],
)
def test_what_fails_in_the_users_code_is_named(env, options, message):
    with pytest.raises(ModelError, match=message):
        explore(env, **options)


def test_a_model_found_by_playing_states_its_assumptions(tmp_path):
    model = explore(Room())
    said = (
        "Found by playing every action 4 times; that transitions are deterministic and no state is hidden was "
        "tested, not proved. Its start was observed in one reset."
    )
    model.save(tmp_path / "room.umb")
    shield = asure.Shield(asure.minimal_budget(model))
    for each in (
        model,
        asure.load(tmp_path / "room.umb"),
        model.with_damage(2 * model.damage),
        product(model, Steps(9)),
    ):
        assert each.origin.learned == said
        assert not each.origin.counted
        assert each.origin.how_found == "found by playing"
    solved = str(asure.solve_policy(model, asure.AlmostSure(0)))
    assert said in solved
    assert "in the model, which was found by playing: " in solved
    assert "the model was found by playing" in repr(shield.minimal)
    assert repr(said) in shield.export_numpy(tmp_path / "shield.py")[0].read_text()
    assert " *   played   Found by playing every action 4 times; " in shield.export_c(tmp_path / "shield.h").read_text()
    assert described("room", model)["learned"] == said
    assert asure.RiskShield(model, 0, 0.1).mdp is model  # whose probabilities are known, if it is right
    assert "Its starts were observed in 3 resets." in explore(Room(), resets=3).origin.learned


class Twice(Room):
    """The room in which a step back to the start ends the episode there."""

    def step(self, action):
        seen, reward, over, cut, info = super().step(action)
        return seen, reward, over or not self.at.any(), cut, info


def test_states_and_actions_are_named_as_the_environment_shows_them():
    names = ["east", "south", "west", "north"]
    room, twice = explore(Room(), action_names=names), explore(Twice(), action_names=names)
    assert room.state_name(int(np.flatnonzero(room.is_terminal())[0])) == "(('at', (3, 3)), ('steps', 0))"
    assert {name for name in twice.state_names if "end" in name} == {"ended at (('at', (0, 0)), ('steps', 0))"}
    assert twice.is_terminal()[twice.encode({"at": np.array([3, 3]), "steps": 0})]
    assert asure.minimal_budget(room).of((("at", (1, 0)), ("steps", 0)), "east") == 1
    assert explore(Room(), mu=0.4, delta=0.5, action_names=names).mdp.action_names == tuple(names)
    with pytest.raises(UnknownName, match=r"unknown action 'eastt'\. Did you mean 'east'\?"):
        room.action("eastt")
    with pytest.raises(UnknownName, match=r"unknown action 'up'\. This model's actions have no names; use 0 … 3\."):
        explore(Room()).action("up")
    with pytest.raises(ModelError, match="action_names must name each of the 4 actions; got 1 name"):
        explore(Room(), action_names=["east"])


def test_what_was_explored_can_be_pickled():
    learned = pickle.loads(pickle.dumps(explore(Room(), mu=0.4, delta=0.5)))
    assert learned.minimal.of_state.tolist() == asure.minimal_budget(explore(Room())).of_state.tolist()
    env = pickle.loads(pickle.dumps(ShieldedEnv(Room(), learned.shield, budget=0)))
    env.reset(seed=0)
    for action in (0, 0, 0, 1, 1, 1):  # along the walls to the far corner, where the episode ends
        _, _, terminated, _, info = env.step(action)
    assert terminated
    assert info["remaining"] == 0


def test_snapshots_by_the_users_functions():
    room = Room()

    def set_state(env, at):
        env.at = at.copy()

    model = explore(room, get_state=lambda env: env.at, set_state=set_state)
    assert asure.minimal_budget(model).of_state.tolist() == asure.minimal_budget(explore(Room())).of_state.tolist()


class Hidden(Room):
    """Observations hide the number of moves, from which on every step does damage."""

    def reset(self, *, seed=None, options=None):
        self.moved = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.moved += 1
        seen, reward, over, cut, _ = super().step(action)
        return seen, reward, over, cut, {"cost": int(self.moved > 3)}


def test_hidden_state_is_noticed():
    with pytest.raises(ModelError, match=r"does not determine what happens next: action .* Pass a key"):
        explore(Hidden())


def test_random_transitions_are_noticed():
    with pytest.raises(ModelError, match=r"is not deterministic: from .*, action \d led to .* explore\(env, mu="):
        explore(Room(chance=0.5))


def test_a_snapshot_that_does_not_restore_is_noticed():
    with pytest.raises(ModelError, match=r"is not deterministic|does not determine what happens next"):
        explore(Room(), get_state=lambda env: None, set_state=lambda env, snapshot: None)


@pytest.mark.parametrize(
    "use",
    [
        explore,
        EnvSampler,
        asure.OnlineShield,
        lambda env: asure.learn_minimal_budget(env, mu=0.1, delta=0.1),
        lambda env: asure.compare(env, 1),
        lambda env: asure.from_gymnasium(env, lambda *_: 0),
    ],
)
def test_a_class_and_a_vector_of_environments_are_refused(use):
    class Lake(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Discrete(2)

    with pytest.raises(ArgumentError, match=r"got the class Lake\. Pass an instance: Lake\(\)\."):
        use(Lake)
    envs = gymnasium.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync")
    with pytest.raises(ArgumentError, match="must be one environment; got SyncVectorEnv, a vector of them"):
        use(envs)


def test_bad_input():
    with pytest.raises(
        ModelError, match=r"info must hold the damage under 'costs'; it has \['prob'\] after 36, action 0"
    ):
        asure.explore("CliffWalking-v1", damage="costs")
    with pytest.raises(ArgumentError, match="with Discrete actions"):
        explore("Pendulum-v1")
    with pytest.raises(ArgumentError, match=r"key must return a hashable value, .*; it returned ndarray"):
        explore(Room(), key=np.array)
    with pytest.raises(ArgumentError, match="get_state and set_state must be given together"):
        explore(Room(), get_state=lambda env: env.at)
    with pytest.raises(
        ModelError, match=r"info must hold the damage under 'damage' or 'cost'; it has nothing .* Pass damage="
    ):
        explore("CartPole-v1", max_states=10)
    with pytest.raises(ModelError, match=r"damage must be a whole number 0 … 255; got 0\.5"):
        explore(Room(), damage=lambda *_: 0.5)
    with pytest.raises(ModelError, match=r"damage must be a whole number 0 … 255; got 'much' after action 0"):
        explore(Room(), damage=lambda *_: "much")
    with pytest.raises(LimitReached, match="more than max_states = 5 states"):
        explore(Room(), max_states=5)


# ---------------------------------------------------------------------- random transitions


class Part:
    """A part of a simulator that holds its random generator."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)


class Slippery(Room):
    """The room with slips: a tenth of the steps go another way; the generator is nested inside."""

    def __init__(self, chance: float = 0.1) -> None:
        super().__init__()
        self.slips, self.parts = chance, {"inner": Part()}

    def step(self, action):
        if self.parts["inner"].rng.random() < self.slips:
            action = (action + 1) % 4
        return super().step(action)


class Coins(gymnasium.Env):
    """A step shows one of two faces, by a deeply nested generator that resets do not seed."""

    observation_space = Discrete(3)
    action_space = Discrete(1)

    def __init__(self) -> None:
        held = (np.random.default_rng(),)
        for _ in range(8):
            held = (held,)
        self.held = held

    def rng(self):
        held = self.held
        while isinstance(held, tuple):
            (held,) = held
        return held

    def reset(self, *, seed=None, options=None):
        self.face = 0
        return self.face, {}

    def step(self, action):
        self.face = 1 + int(self.rng().random() < 0.25)
        return self.face, 0.0, True, False, {"cost": self.face - 1}


def take(env):
    return env.face, env.rng().bit_generator.state


def put(env, taken):
    """Also restores the random generator, as another object in the same state."""
    env.face, state = taken
    env.held = (np.random.default_rng(),)
    env.rng().bit_generator.state = state


@pytest.mark.parametrize("snapshots", [{}, {"get_state": take, "set_state": put}])
def test_plays_are_independent_wherever_the_generator_is(snapshots):
    learned = explore(Coins(), mu=0.005, delta=0.01, seed=4, **snapshots)
    again = explore(Coins(), mu=0.005, delta=0.01, seed=4, **snapshots)
    assert learned.counts.times.tolist() == again.counts.times.tolist()
    frequent, rare = learned.counts.times.tolist()
    plays = frequent + rare
    assert plays == math.ceil(math.log(200 * math.pi**2 / (6 * 0.01)) / -math.log(0.995))
    assert abs(rare - plays / 4) < 4 * (plays * 3 / 16) ** 0.5
    assert learned.minimal.smallest_budget() == 1


def test_the_number_of_plays_is_rounded_up():
    mu = 1 / 93
    assert math.floor(1 / mu) == 92  # rounding: the choice may have 93 outcomes
    learned = explore(Coins(), mu=mu, delta=0.01)
    assert learned.samples == math.ceil(math.log(93 * math.pi**2 / (6 * 0.01)) / -math.log1p(-mu))


def stop_at(monkeypatch, number):
    """Ctrl-C at that step of the rooms; returns the list of steps, which grows."""
    step, taken = Room.step, []

    def counted(self, action):
        taken.append(action)
        if len(taken) == number:
            raise KeyboardInterrupt
        return step(self, action)

    monkeypatch.setattr(Room, "step", counted)
    return taken


@pytest.mark.parametrize("chance", [{}, {"mu": 0.09, "delta": 0.05}])
def test_an_interrupted_exploration_can_be_continued(chance, monkeypatch):
    env = Slippery() if chance else Room()
    whole = explore(env, **chance)
    taken = stop_at(monkeypatch, 150)
    fewer = "A larger mu or delta takes fewer plays" if chance else r"observation makes fewer states\.$"
    with pytest.raises(Interrupted, match=rf"after 150 plays: .*stopped\.kept\.go_on\(\).*{fewer}") as stopped:
        explore(env, **chance)
    kept = stopped.value.kept
    assert "<Exploration: 150 plays: " in repr(kept)
    result = kept.go_on()
    if chance:
        assert result.minimal.of_state.tolist() == whole.minimal.of_state.tolist()
        assert result.counts.samples.tolist() == whole.counts.samples.tolist()
    else:
        assert result.fingerprint == whole.fingerprint
        again = 150 % 4  # plays of the choice at which it was interrupted, which is played again
        assert len(taken) == kept.search.plays
        assert len(kept.search.arrivals) * 5 + again <= len(taken) <= len(kept.search.arrivals) * 6 + again


def test_an_interrupted_check_is_repeated_when_the_exploration_is_continued(monkeypatch):
    stop_at(monkeypatch, 15 * 4 * 4 + 1)  # the first step after all choices of the 15 states were played
    with pytest.raises(Interrupted, match="60 choices explored, 15 states found") as stopped:
        explore(Hidden())
    with pytest.raises(ModelError, match="does not determine what happens next"):
        stopped.value.kept.go_on()


class Tracked(Room):
    """The room with the path through it, which observations hide."""

    def reset(self, **options):
        self.path = ()
        return super().reset(**options)

    def step(self, action):
        self.path = (*self.path, action)
        return super().step(action)


def test_the_snapshots_do_not_depend_on_when_the_exploration_was_interrupted(monkeypatch):
    def paths(stop):
        with monkeypatch.context() as patch:
            stop_at(patch, stop)
            with pytest.raises(Interrupted, match=f"after {stop} plays?:") as stopped:
                explore(Tracked())
            stopped.value.kept.go_on()
        search = stopped.value.kept.search
        both = search.snapshots, search.second_snapshots
        return [{state: env().path for state, (env, _) in snapshots.items()} for snapshots in both]

    whole = paths(1)
    assert len(whole[1]) == 15
    assert all(first != whole[1][state] for state, first in whole[0].items())
    for stop in (*range(2, 15), 102, 103):
        assert paths(stop) == whole


def walked(state, action):
    """The next state of a step in the room, its reward and its damage."""
    move = [(0, 1), (1, 0), (0, -1), (-1, 0)][action]
    after = tuple(min(max(x + d, 0), 3) for x, d in zip(state, move, strict=True))
    return after, float(after == (3, 3)), int(after in {(1, 1), (2, 1)})


def test_random_transitions_are_sampled_into_a_learned_budget():
    learned = explore(Slippery(), mu=0.09, delta=0.05, seed=3)
    exact = asure.from_function(
        lambda state, action: [(0.9, *walked(state, action)), (0.1, *walked(state, (action + 1) % 4))],
        initial=(0, 0),
        actions=lambda state: [] if state == (3, 3) else [0, 1, 2, 3],
    )
    size = exact.num_states
    assert learned.counts.space.num_states == size
    assert learned.minimal.smallest_budget() == asure.minimal_budget(exact).smallest_budget()
    assert sorted(learned.minimal.of_state[:size].tolist()) == sorted(asure.minimal_budget(exact).of_state.tolist())
    assert "95" in learned.statement
    assert "the observed state determines" in learned.statement
    assert learned.counts.confidence(0.09).delta <= 0.05  # states where episodes are over need no samples
    assert learned.counts.to_mdp() == learned.mdp
    with pytest.raises(ModelError, match="this model was learned"):
        asure.RiskShield(learned.mdp, 1, 0.5)
    env = ShieldedEnv(Slippery(), learned.shield, learned.minimal.smallest_budget() + 1)
    env.reset(seed=0)


class Battery(Slippery):
    """A slippery room with a hidden battery, which runs out far from the start on the shortest paths."""

    def reset(self, *, seed=None, options=None):
        self.charge = 9
        return super().reset(seed=seed)

    def step(self, action):
        seen, reward, over, cut, info = super().step(action)
        self.charge -= 1
        return seen, reward, over or self.charge == 0, cut, info


class Ring(gymnasium.Env):
    """A walk in a ring of six cells, through even cells only or odd cells only; it starts in one of three."""

    observation_space = Discrete(6)
    action_space = Discrete(2)

    def __init__(self, chance: float = 0.0) -> None:
        self.chance = chance

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = int(self.np_random.choice([0, 2, 5]))
        return self.at, {}

    def step(self, action):
        back = action == 1 and self.np_random.random() >= self.chance
        self.at = (self.at + (4 if back else 2)) % 6
        return self.at, 0.0, False, False, {"cost": int(self.at == 0)}


def test_every_start_that_the_resets_show_is_explored():
    one = explore(Ring())
    assert one.num_states == 3
    every = explore(Ring(), resets=60)
    assert every.num_states == 6
    assert every.initial_states.tolist() == [0, 2, 5]
    assert abs(every.initial_probabilities - 1 / 3).max() < 0.2
    assert asure.minimal_budget(every).of_state[[1, 3, 5]].tolist() == [0, 0, 0]
    env = ShieldedEnv(Ring(), HorizonShield(asure.minimal_budget(every, horizon=5)), 5)
    begun = set()
    for seed in range(20):
        env.reset(seed=seed)
        begun.add(env.unwrapped.at)
    assert begun == {0, 2, 5}
    with pytest.raises(ArgumentError, match="resets must be at least 1"):
        explore(Ring(), resets=0)
    with pytest.raises(ArgumentError, match="seed must be a whole number"):
        explore(Ring(), seed=None)


def test_a_reset_with_damage_is_refused():
    """A shielded environment refuses it, too: no budget includes damage at the start."""

    class Toll(Room):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0], {"cost": 2}

    with pytest.raises(ModelError, match=r"a reset must do no damage; info\['cost'\] is 2 after it"):
        explore(Toll())
    with pytest.raises(ModelError, match="a reset must do no damage"):
        explore(Toll(), damage="cost", mu=0.3, delta=0.1)
    assert explore(Toll(), damage="terminated").num_states == 16  # the cost is no damage


def test_a_state_that_was_not_found_is_not_taken_for_an_end():
    """A start that no reset showed, and a step with a new outcome."""
    env = ShieldedEnv(Ring(), HorizonShield(asure.minimal_budget(explore(Ring()), horizon=5)), 5)
    other = next(seed for seed in range(20) if Ring().reset(seed=seed)[0] != 5)
    with pytest.raises(ModelError, match=r"^[02] was not found when the environment was explored\. .* resets="):
        env.reset(seed=other)
    env.reset(seed=0)
    env.unwrapped.at = 0
    with pytest.raises(ModelError, match=r"^2 was not found .* If a step led there, .* mu= and delta="):
        env.step(0)
    ends = explore(Room())
    assert ends.observed({"at": np.array([3, 3]), "steps": 0}) == ends.state(
        ends.state_names[ends.is_terminal().argmax()]
    )


def test_counts_number_states_as_the_model_does():
    learned = explore(Ring(chance=0.3), mu=0.2, delta=0.01, resets=60)
    counted = learned.counts.to_mdp("allow")
    for state in range(6):
        for action in (0, 1):
            seen = {(o.next_state, o.damage) for o in counted.outcomes(state, action)}
            assert seen == {(o.next_state, o.damage) for o in learned.mdp.outcomes(state, action)}


def test_hidden_state_is_noticed_despite_random_transitions():
    with pytest.raises(ModelError, match=r"not determine what happens next: .* never in \d+ plays .* or a smaller mu"):
        explore(Battery(), mu=0.09, delta=0.05)


class Dealt(gymnasium.Env):
    """Each reset hides which of the two actions hurts."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.bad = int(self.np_random.random() < 0.5)
        return 0, {}

    def step(self, action):
        return 1, 0.0, True, False, {"cost": int(action == self.bad)}


@pytest.mark.parametrize("chance", [{}, {"mu": 0.2, "delta": 0.01}])
@pytest.mark.parametrize("seed", range(4))
def test_state_that_resets_hide_is_noticed(chance, seed):
    with pytest.raises(ModelError, match="the state 0 does not determine what happens next"):
        explore(Dealt(), resets=60, seed=seed, **chance)


def test_the_statement_names_the_starts():
    learned = explore("FrozenLake-v1", mu=0.3, delta=0.1)
    assert "Its start was observed in one reset." in str(learned)
    assert "Its starts were observed in 2 resets." in str(explore("FrozenLake-v1", mu=0.3, delta=0.1, resets=2))


def test_ambiguous_names_of_states_are_refused():
    mdp = asure.from_function(lambda s, a: [(1.0, "1", 0.0, 0)], initial=1, actions=lambda s: [0] if s == 1 else [])
    assert mdp.state_names == ("1", "'1'")
    assert ByName(mdp)(1) == 0
    with pytest.raises(ModelError, match="two states have the name of the observation '1'; write state_of"):
        ByName(mdp)("1")


def test_bad_input_about_random_transitions():
    with pytest.raises(ArgumentError, match="mu and delta must be given together"):
        explore(Slippery(), mu=0.1)
    with pytest.raises(ArgumentError, match="mu must lie strictly between 0 and 1"):
        explore(Slippery(), mu=1.5, delta=0.1)
    with pytest.raises(ArgumentError, match=r"got 1\. If nothing is random, pass 0\.999"):
        explore(Slippery(), mu=1, delta=0.1)
    with pytest.raises(ModelError, match="not deterministic"):
        explore(Slippery(0.5))
    with pytest.raises(ArgumentError, match="showed 2 different outcomes, of which no more than 1 can be"):
        explore(Slippery(0.5), mu=0.6, delta=0.1)


def test_a_loaded_model_finds_the_states_of_observations_by_name(tmp_path):
    explore("CliffWalking-v1").save(tmp_path / "cliff.umb")
    cliff = asure.load(tmp_path / "cliff.umb")
    with pytest.raises(ModelMismatch, match=r"48 states and the shield's model 38.*state_of=almostsure.learn.ByName"):
        ShieldedEnv(gymnasium.make("CliffWalking-v1"), asure.Shield(asure.minimal_budget(cliff)), 0)
    place = ByName(cliff)
    assert cliff.state_name(place(np.int64(36))) == "36"
    assert cliff.state_name(place(47)) == "47"
    with pytest.raises(ModelError, match="no state of the model has the name of the observation, '99'"):
        place(99)
    with pytest.raises(ArgumentError, match="must have names of states"):
        ByName(asure.from_transitions([0], [0], [0], [1], [0], [0]))


def test_a_loaded_model_with_states_in_another_order_is_not_read_by_number(tmp_path):
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    explored = explore(lake)
    explored.save(tmp_path / "lake.umb")
    loaded = asure.load(tmp_path / "lake.umb")
    assert loaded == explored
    assert loaded.state_names == explored.state_names
    assert loaded.state_names[1] == "4"  # as many as in the environment, in the order in which they were found
    shield = asure.Shield(asure.minimal_budget(loaded))
    with pytest.raises(ModelMismatch, match=r"the state named '4' has number 1\..* state_of=almostsure.learn.ByName"):
        ShieldedEnv(lake, shield, 0)
    with pytest.raises(ModelMismatch, match=r"the state named '4' has number 1\."):
        ShieldedVectorEnv(gymnasium.make_vec("FrozenLake-v1", num_envs=2, is_slippery=False), shield, 0)
    env = ShieldedEnv(lake, shield, 0, state_of=ByName(loaded))
    _, info = env.reset(seed=0)
    for _ in range(200):
        _, _, ended, cut, info = env.step(env.action_space.sample(mask=info["action_mask"]))
        assert info["remaining"] == 0
        if ended or cut:
            _, info = env.reset()
    ShieldedEnv(asure.to_gymnasium(loaded), shield, 0).reset(seed=0)  # shows the model's own numbers


def test_a_loaded_shield_in_its_environment_says_what_to_write(tmp_path):
    explore(Room()).save(tmp_path / "room.umb")
    room = asure.load(tmp_path / "room.umb")
    shield = asure.Shield(asure.minimal_budget(room))
    with pytest.raises(
        ArgumentError, match=r"observation space is .*If explore .*state_of=almostsure.learn.ByName\(mdp\)"
    ):
        ShieldedEnv(Room(), shield, 0)
    with pytest.raises(UnknownName, match=r"only knows its states by name.*ByName\(mdp\)\(observation, env\)"):
        room.state(Room().reset()[0])
    env = ShieldedEnv(Room(), shield, 0, state_of=ByName(room))
    env.reset(seed=0)
    for action in (1, 1, 1, 0, 0, 0):
        _, reward, over, _, info = env.step(action)
    assert (reward, over, info["damage"]) == (1.0, True, 0)


@pytest.mark.parametrize("reads", [explore, lambda env: EnvSampler(env, lambda env, state: None)])
def test_wrappers_that_skip_steps_are_refused_since_their_damage_would_be_lost(reads):
    env = gymnasium.wrappers.RepeatAction(gymnasium.make("CliffWalking-v1"), 2)
    with pytest.raises(ArgumentError, match=r"must see every step; RepeatAction inside hides that\. Pass the env"):
        reads(env)
