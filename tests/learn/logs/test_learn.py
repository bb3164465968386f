"""Budgets from logs: the guarantee, refused choices, and refused logs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import almostsure as asure
from almostsure.errors import (
    ArgumentError,
    CorruptFile,
    FileError,
    LimitReached,
    ModelError,
    ModelMismatch,
    NoSafeAction,
    UnknownName,
)
from almostsure.gym import ShieldedEnv
from almostsure.learn import OnlineShield, learn_from_logs
from almostsure.learn.learners import ShieldedQ
from almostsure.learn.logs.learn import known_choices
from almostsure.testing import mdps

from ..alike import same

LINE = {"s": [0, 1, 2], "a": [0, 0, 1], "s'": [1, 2, 3], "r": [0.5, 1, 2], "d": [0, 2, 1]}  # one episode


def learn(log, **options):
    return learn_from_logs(log, **{"mu": 0.2, "delta": 0.05} | options)


def with_row(at=1, **changes):
    """The line, with changes in one row."""
    result = {name: list(values) for name, values in LINE.items()}
    for name, value in changes.items():
        result[name][at] = value
    return result


def budgets_by_pair(learned, mdp):
    """The learned budget of each choice of the model."""
    return np.array(
        [
            learned.minimal.of_choice[learned.mdp.choice(int(s), int(a))]
            for s, a in zip(mdp.choice_states(), mdp.choice_action, strict=True)
        ]
    )


# ---------------------------------------------------------------------- the guarantee


@settings(max_examples=60)
@given(mdps(max_damage=3, max_outcomes=3), st.integers(1, 80), st.integers(0, 2**32))
def test_refusing_is_safe_if_known_choices_are_complete(make_log, mdp, steps, seed):
    if mdp.is_terminal().all():
        return
    log, truth = make_log(mdp, steps, seed, anywhere=True), asure.minimal_budget(mdp)
    options = {"num_states": mdp.num_states, "actions": mdp.actions, "mu": 0.3, "delta": 0.9}
    refusing, allowing = learn(log, **options), learn(log, unknown="allow", **options)
    asure.check_minimal_budget(refusing.mdp, refusing.minimal)
    moves = ~mdp.is_terminal()[mdp.choice_states()]  # a log leads to the end instead
    assert (budgets_by_pair(allowing, mdp)[moves] <= truth.of_choice[moves]).all()
    counts = refusing.counts
    seen = set(zip(counts.choice.tolist(), counts.next_state.tolist(), counts.damage.tolist(), strict=True))
    for c in np.flatnonzero(refusing.known[: mdp.num_choices]).tolist():
        state, action = int(mdp.choice_states()[c]), int(mdp.choice_action[c])
        for outcome in mdp.outcomes(state, action):
            target = counts.space.end if mdp.is_terminal()[outcome.next_state] else outcome.next_state
            if (c, target, outcome.damage) not in seen:
                return  # not complete: there is no guarantee
    assert (budgets_by_pair(refusing, mdp)[moves] >= truth.of_choice[moves]).all()


def test_a_long_log_gives_the_exact_budgets(make_log):
    mdp = asure.example("corridor")
    log, moves = make_log(mdp, 9_000, 3, anywhere=True), ~mdp.is_terminal()[mdp.choice_states()]
    learned = learn(log, mu=0.9, delta=0.01, num_states=mdp.num_states, actions=mdp.actions)
    assert learned.known[: mdp.num_choices][moves].all()
    assert np.array_equal(budgets_by_pair(learned, mdp)[moves], asure.minimal_budget(mdp).of_choice[moves])
    assert learned.samples == 9_000


def test_the_budget_is_exact_if_all_choices_are_known():
    log = {"s": [0] * 200, "a": [0, 1] * 100, "s'": [0] * 200, "d": [1, 0] * 100}
    learned = learn(log, num_states=1, actions=2)
    assert learned.known.all()
    assert learned.minimal.of_choice.tolist() == [1, 0]
    assert learned.statement.startswith("If no outcome is rarer than 20 %, this budget equals k* with probability")
    assert same(learned, learn(log))
    assert "the log shows all states and actions" in learn(log).statement
    assert "shows" not in learned.statement


def test_failures_are_rarer_than_delta_even_with_an_adversarial_log():
    mu, delta, choices, failures = 0.3, 0.2, 4, 0
    rng = np.random.default_rng(1)
    for _ in range(1500):
        actions, damages = [], []
        for action in range(choices):
            for _ in range(16):  # play each until it does damage, and no more: then complete choices are rarely known
                actions.append(action)
                damages.append(int(rng.random() < mu))
                if damages[-1]:
                    break
        table = {"s": [0] * len(actions), "a": actions, "s'": [0] * len(actions), "d": damages}
        learned = learn(table, mu=mu, delta=delta, num_states=1, actions=choices, max_damage=1)
        hurt = np.isin(np.arange(choices), learned.counts.choice[learned.counts.damage > 0])
        failures += bool((learned.known & ~hurt).any())
    assert 0 < failures / 1500 < delta


def test_unknown_choices_are_refused_by_default(make_log, hazard):
    log = make_log(hazard, 4000, 1, anywhere=True)
    options = {"mu": 0.1, "delta": 0.1, "num_states": hazard.num_states, "actions": 4}
    refusing, allowing = learn(log, **options), learn(log, unknown="allow", **options)
    never = np.flatnonzero(refusing.counts.samples == 0)
    never = never[refusing.counts.space.choice_states()[never] != refusing.counts.space.end]
    assert never.size
    assert (refusing.minimal.of_choice[never] == asure.INFINITE).all()
    assert (allowing.minimal.of_choice[never] == allowing.minimal.of_state[allowing.mdp.choice_states()[never]]).all()
    with pytest.raises(NoSafeAction, match="what it needs is unknown"):
        refusing.shield.allowed(int(refusing.counts.space.choice_states()[never[0]]), 3)
    assert "refused" in str(refusing)
    assert "allowed" in str(allowing)
    assert "nowhere below k*: its shield never overspends, with probability at least 0.9." in refusing.statement
    assert "promise nothing" in allowing.statement
    assert "What it refuses is unsafe for certain" in allowing.statement
    assert refusing.shield.mdp.num_states == hazard.num_states + 2  # the end, and the state "unknown"


def test_terminated_steps_lead_to_the_end():
    log = {"s": [0, 0], "a": [0, 0], "s'": [0, -1], "d": [0, 1], "terminated": [0, 1]}
    counts = learn(log).counts
    assert counts.space.end == 1
    assert counts.next_state.tolist() == [0, 1]
    assert counts.to_mdp().is_terminal().tolist() == [False, True]
    assert learn(log, unknown="allow").minimal.of_state.tolist() == [1, 0]
    text = log | {"s": ["0", "0"], "a": ["0", "0"], "s'": ["0", ""], "terminated": ["false", "true"]}
    assert same(learn(text), learn(log))


def test_initial_states():
    log = {"s": [2, 0, 0, 2], "a": [0] * 4, "s'": [0, 0, 1, 1], "d": [0] * 4, "terminated": [False, False, True, True]}
    assert learn(log).mdp.initial_states.tolist() == [2]
    log |= {"episode": ["a", "b", "b", "c"], "terminated": [False, False, True, True]}
    mdp = learn(log).mdp
    assert dict(zip(mdp.initial_states.tolist(), mdp.initial_probabilities.tolist(), strict=True)) == pytest.approx(
        {0: 1 / 3, 2: 2 / 3}
    )
    assert learn(log, initial=1).mdp.initial_state == 1


def test_an_online_shield_continues_from_a_log(tmp_path):
    log = {"s": [0] * 60, "a": [0] * 60, "s'": [0, 1] * 30, "d": [1, 0] * 30, "terminated": [False, True] * 30}
    counts = learn(log, num_states=2, actions=2).counts
    shield = OnlineShield(counts, known=counts)
    assert shield.of_choice.tolist() == [asure.INFINITE] * 4 + [0]  # 0 may do damage for ever, 1 is unknown
    assert shield.watch(0, 1, counts.space.end, 2)
    assert shield.of_choice.tolist() == [3, 2, asure.INFINITE, asure.INFINITE, 0]
    shield.save(tmp_path / "shield")
    assert OnlineShield.load(tmp_path / "shield", counts).allowed(0, 2).tolist() == [1]


def test_abstractions_say_so():
    log = with_row() | {"s": ["a", "b", "c"], "s'": ["b", "c", "d"]}
    learned = learn(log, encode=lambda name: "abcd".index(name))
    assert same(learned, learn(LINE))
    assert "the abstraction that encode makes" in learned.statement
    with pytest.raises(ModelError, match="encode failed for the state of row 1: ValueError: substring not found"):
        learn(log | {"s": ["a", "z", "c"]}, encode=lambda name: "abcd".index(name))
    with pytest.raises(ModelError, match=r"state must be an integer, 0 or more; got 0.5 at row 0 \(and 2 more rows\)"):
        learn(log, encode=lambda name: 0.5)
    assert learn(log).mdp.state_names[:4] == ("a", "b", "c", "d")


def test_states_with_names_in_the_log_are_not_used_by_number():
    rows = [0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 1, 1], [1] * 4, [0] * 4, [0, 5, 0, 0]
    mdp = asure.from_transitions(*rows, state_names=["start", "goal"], action_names=["go", "jump"])
    log = {"s": ["start", "goal"] * 80, "a": ["go", "go", "jump", "jump"] * 40, "s'": ["goal"] * 160}
    learned = learn(log | {"d": [0, 0, 5, 0] * 40, "episode": np.arange(160) // 2}, mu=0.3, actions=["go", "jump"])
    assert learned.mdp.state_names == ("goal", "start")
    assert learned.shield.allowed("start", 0).tolist() == [0]
    with pytest.raises(ModelMismatch, match="from what is trained on: state 0 is 'goal', not 'start'"):
        ShieldedQ(shield=learned.shield).train(mdp, 0, steps=10, seed=0)
    with pytest.raises(ModelMismatch, match="differently: state 0 is 'goal', not 'start'"):
        OnlineShield(mdp, known=learned.counts)
    nameless = asure.from_transitions(*rows)
    with pytest.raises(ModelMismatch, match="theirs have names, in alphabetical order"):
        OnlineShield(nameless, known=learned.counts)
    online = OnlineShield(learned.counts, known=learned.counts)
    for guard in (learned.shield, online):
        for env in (asure.to_gymnasium(mdp), asure.to_gymnasium(nameless)):
            with pytest.raises(ModelError, match=r"the name of a state, as in the log; got 0\. Pass state_of"):
                ShieldedEnv(env, guard, 0).reset(seed=0)
            by_name = ShieldedEnv(env, guard, 0, state_of=lambda state, env: ["start", "goal"][state])
            assert by_name.reset(seed=0)[1]["action_mask"].tolist() == [1, 0]
    assert ShieldedEnv(asure.to_gymnasium(learned.mdp), learned.shield, 0).reset(seed=0)[1]["action_mask"].sum() == 1


def test_names_from_a_log_are_not_used_by_number_after_loading(tmp_path):
    states, actions = ["goal", "start"], ["go", "jump"]
    rows = [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0], [1] * 4, [0] * 4, [0, 0, 0, 5]
    mdp = asure.from_transitions(*rows, initial=1, state_names=states, action_names=actions)
    log = {"s": ["start", "goal"] * 80, "a": ["jump", "go", "go", "jump"] * 40, "s'": ["goal"] * 160}
    log |= {"d": [5, 0, 0, 0] * 40, "episode": np.arange(160) // 2}
    learned = learn(log, mu=0.3).mdp
    learned.save(tmp_path / "log.umb")
    loaded = asure.load(tmp_path / "log.umb")
    assert loaded == learned
    assert (loaded.state_names, loaded.action_names) == (learned.state_names, learned.action_names)
    nameless = asure.from_transitions(*rows, initial=1)
    for model in (learned, loaded):
        shield = asure.Shield(asure.minimal_budget(model))
        with pytest.raises(
            ArgumentError, match=r"numbers its actions in an unknown order\. List them in its order: lea"
        ):
            ShieldedEnv(asure.to_gymnasium(nameless), shield, 0)
        with pytest.raises(ModelError, match=r"an observation must be the name of a state"):
            shield.mdp.observed(0)
        assert ShieldedEnv(asure.to_gymnasium(mdp), shield, 0).reset(seed=0)[1]["action_mask"].tolist() == [1, 0]


def test_actions_with_names_in_the_log_are_not_used_by_number():
    rows = [0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 1, 1], [1] * 4, [0] * 4, [0, 5, 0, 0]
    log = {"s": [0, 1] * 80, "a": ["safe", "safe", "jump", "jump"] * 40, "s'": [1] * 160, "d": [0, 0, 5, 0] * 40}
    log |= {"episode": np.arange(160) // 2}
    learned = learn(log, mu=0.3)
    assert learned.mdp.action_names == ("jump", "safe")
    assert learned.shield.allowed(0, 0).tolist() == [1]
    nameless, named = (asure.from_transitions(*rows, action_names=names) for names in (None, ["safe", "jump"]))
    for mdp in (nameless, named):
        with pytest.raises(
            ArgumentError, match=r"numbers its actions in an unknown order\. List them in its order: lea"
        ):
            ShieldedEnv(asure.to_gymnasium(mdp), learned.shield, 0)
        with pytest.raises(ModelMismatch, match="numbers states and actions differently from what is trained on"):
            ShieldedQ(shield=learned.shield).train(mdp, 0, steps=10, seed=0)
        with pytest.raises(ModelMismatch, match="number states and actions differently"):
            OnlineShield(mdp, known=learned.counts)
    told = learn(log, mu=0.3, actions=["safe", "jump"])
    assert ShieldedEnv(asure.to_gymnasium(nameless), told.shield, 0).reset(seed=0)[1]["action_mask"].tolist() == [1, 0]


class NotAvailable:
    """The missing value of data frames, which cannot be compared."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    def __repr__(self):
        return "<NA>"


def test_columns_of_mixed_types():
    log = {"s": [0, 1], "a": [0, 0], "s'": [1, 0], "d": [0, 1], "terminated": [False, True]}
    straight = learn(log)
    for column in (["0", "1"], ["0.0", " 1 "], np.array([False, True], object), [0, True], np.array(["0", "1"])):
        assert same(learn(log | {"d": column}), straight)
    assert same(learn(log | {"terminated": np.array([False, True], object)}), straight)
    shown = {"s": [(0, 0), (0, 1)], "s'": [(0, 1), None]}  # no observation after the end
    assert learn(log | shown, encode=lambda pair: pair[1]).counts.num_outcomes == 2
    for name, column, said in (
        ("terminated", [False, None], "terminated must be true or false; got nothing at row 1"),
        ("terminated", np.array([False, NotAvailable()], object), "true or false; got <NA> at row 1"),
        ("s", ["0", NotAvailable()], "state must be an integer, 0 or more, or a name; got <NA> at row 1"),
        ("d", np.ma.array([0, 1], mask=[False, True]), "damage must be .*; got nothing at row 1"),
        ("d", ["0", "one"], "damage must be .*; got 'one' at row 1"),
        ("d", dict.fromkeys(range(1000)), r"damage must be a column, one entry per row; got .{1,80}\. Make columns of"),
    ):
        with pytest.raises(ModelError, match=said):
            learn(log | {name: column})


def test_known_choices_are_known_by_count():
    log = {"s": [0] * 30, "a": [0] * 30, "s'": [0] * 30, "d": [0] * 30}
    assert [
        bool(known_choices(learn({n: v[:k] for n, v in log.items()}, actions=3).counts, 0.2, 0.05)[0])
        for k in (1, 21, 22)
    ] == [False, False, True]  # 2 · 0.8^k ≤ ε / (1 + ε) with ε = 0.05 / 3


# ---------------------------------------------------------------------- forms of logs


def test_any_form_gives_the_same(make_log, hazard):
    log = make_log(hazard, 3000, 2)
    straight = learn(log)
    cut = [{name: values[i : i + 700] for name, values in log.items()} for i in range(0, 3000, 700)]
    assert same(learn(cut), straight)
    assert same(learn(iter(cut)), straight)
    structured = np.zeros(3000, [(name, values.dtype) for name, values in log.items()])
    for name, values in log.items():
        structured[name] = values
    assert same(learn(structured), straight)
    short = dict(zip(("s", "a", "s2", "r", "cost"), list(log.values())[2:7], strict=True))
    assert same(learn(short | {"terminated": log["terminated"], "truncated": log["truncated"]}), straight)
    summed = np.cumsum(log["damage"])
    begins = np.flatnonzero(log["step"] == 0)
    before = np.repeat((summed - log["damage"])[begins], np.diff(np.append(begins, 3000)))
    cumulative = log | {"cumulative_damage": summed - before}
    assert same(learn(cumulative), straight)
    del cumulative["damage"]
    assert same(learn(cumulative), straight)
    assert same(
        learn([{n: v[:1500] for n, v in cumulative.items()}, {n: v[1500:] for n, v in cumulative.items()}]), straight
    )


def test_trajectories(make_log, hazard):
    log = make_log(hazard, 500, 2)
    trajectories = []
    for episode in range(int(log["episode"].max()) + 1):
        here = log["episode"] == episode
        trajectories.append(
            {
                "s": np.append(log["state"][here], log["next_state"][here][-1]),
                **{name: log[name][here] for name in ("action", "reward", "damage")},
                "terminated": bool(log["terminated"][here][-1]),
            }
        )
    assert same(learn(trajectories), learn(log))
    renamed = [{"where" if n == "s" else n: v for n, v in t.items()} for t in trajectories]
    assert same(learn(renamed, columns={"state": "where"}), learn(log))
    ended = [{"end" if n == "terminated" else n: v for n, v in t.items()} for t in trajectories]
    assert same(learn(ended, columns={"terminated": "end"}), learn(log))
    with pytest.raises(ModelError, match="got 2 of damage and 1 of action"):
        learn({"s": [0, 1], "a": [0], "d": [0, 1]})
    with pytest.raises(ModelError, match="got 1 of terminated and 2 of action"):
        learn({"s": [0, 1, 2], "a": [0, 0], "d": [0, 1], "terminated": [True]})


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_a_trajectory_ends_only_at_its_end(flag):
    line = {"s": [0, 1, 2], "a": [0, 0], "d": [0, 1]}
    for early in ([True, False], [1, 1], ["true", "false"]):
        with pytest.raises(ModelError, match=f"follow a step that is flagged {flag}; step 0 of the trajectory is not"):
            learn({**line, flag: early})
    plain = learn({**line, flag: [False, True]})
    assert same(learn({**line, flag: ["false", "true"]}), plain)
    assert same(
        learn([{**line, flag: ["false", "true"]}, {**line, flag: [False, True]}]), learn([{**line, flag: True}] * 2)
    )


def test_the_order_of_episodes_does_not_matter(make_log, hazard):
    log = make_log(hazard, 2000, 2)
    order = np.lexsort((log["step"], -log["episode"]))
    straight, turned = learn(log), learn({name: values[order] for name, values in log.items()})
    assert np.array_equal(straight.known, turned.known)
    assert np.array_equal(straight.minimal.of_choice, turned.minimal.of_choice)


# ---------------------------------------------------------------------- bad logs

CASES = {
    "damage must be an integer 0 … 255; got -1 at row 1": {"d": -1},
    "damage must be an integer 0 … 255; got 0.5 at row 1": {"d": 0.5},
    "damage must be an integer 0 … 255; got NaN at row 1": {"d": float("nan")},
    "damage must be an integer 0 … 255; got inf at row 1": {"d": float("inf")},
    "damage must be an integer 0 … 255; got 256 at row 1": {"d": 256},
    "damage must be an integer 0 … 255; got 'ouch' at row 1": {"d": "ouch"},
    "damage must be an integer 0 … 255; got nothing at row 1": {"d": None},
    "reward must be a finite number; got NaN at row 1": {"r": float("nan")},
    "reward must be a finite number; got inf at row 1": {"r": float("inf")},
    "state must be an integer, 0 or more; got -3 at row 1": {"s": -3},
    "next_state must be an integer, 0 or more; got 2.5 at row 1": {"s'": 2.5},
    "action must be an integer, 0 or more; got -1 at row 1": {"a": -1},
    "action must be an integer, as in other rows; got 'left' at row 1": {"a": "left"},
    "a row must begin where the one before it ended, in state 1; got state 3 at row 1": {"s": 3},
}


@pytest.mark.parametrize("message", CASES)
def test_bad_entries(message):
    with pytest.raises(ModelError, match=message):
        learn(with_row(**CASES[message]))


def test_a_number_among_names_is_reported():
    with pytest.raises(ModelError, match=r"action must be a name, as in other rows; got '7' at row 1\."):
        learn(LINE | {"a": ["fast", "7", "slow"]})


def test_another_separator_is_reported(tmp_path):
    (tmp_path / "log.csv").write_text("s;a;s';d\n0;0;0;0\n")
    with pytest.raises(UnknownName, match=r"unknown column 'state'.* seems to be ';'\. Write it with commas\."):
        learn(tmp_path / "log.csv")


def test_bad_flags():
    with pytest.raises(ModelError, match="terminated must be true or false; got 2 at row 1"):
        learn(LINE | {"terminated": [0, 2, 1]})
    with pytest.raises(ModelError, match="terminated must be true or false; got NaN at row 1"):
        learn(LINE | {"terminated": [0, float("nan"), 1]})
    with pytest.raises(ModelError, match="truncated must be true or false; got 'maybe' at row 2"):
        learn(LINE | {"truncated": ["False", "0", "maybe"]})


def test_gaps_and_disorder():
    episodes = LINE | {"episode": [0, 0, 0], "step": [0, 1, 2]}
    assert learn(episodes).samples == 3
    with pytest.raises(ModelError, match=r"steps must increase by one; got 3 after 1 at row 2. Rows are missing"):
        learn(episodes | {"step": [0, 1, 3]})
    with pytest.raises(ModelError, match=r"got 1 after 2 at row 3. Sort the log by episode and step"):
        learn({n: [*v, v[-1]] for n, v in episodes.items()} | {"step": [0, 1, 2, 1]})
    with pytest.raises(ModelError, match="an episode must begin with step 0 or 1; got 4 at row 0"):
        learn(episodes | {"step": [4, 5, 6]})
    with pytest.raises(ModelError, match="every episode must begin with step 0, as the first one does; got 1 at row 1"):
        learn(episodes | {"episode": [0, 1, 1], "step": [0, 1, 2]})
    with pytest.raises(ModelError, match=r"must be consecutive; row 2 goes on with episode 0, after another one. Sort"):
        learn(LINE | {"episode": [0, 1, 0]})
    with pytest.raises(ModelError, match="nothing must follow a row that is flagged terminated; row 1 goes on"):
        learn(LINE | {"episode": [0, 0, 0], "terminated": [True, False, False]})
    with pytest.raises(ModelError, match="flagged truncated; row 2 goes on with episode 'x'"):
        learn(LINE | {"episode": ["x"] * 3, "truncated": [False, True, False]})
    with pytest.raises(ModelError, match=r"in state 1; got state 3 at row 1.*columns={'episode': …}"):
        learn(with_row(s=3))
    with pytest.raises(ModelError, match="Rows are missing, or in the wrong order"):
        learn(with_row(s=3) | {"episode": [0, 0, 0]})


@settings(max_examples=60)
@given(st.data())
def test_a_log_that_was_tampered_with_is_refused(make_log, data):
    log = make_log(asure.example("hazard-map"), 60, 4, length=7)
    rows = list(range(60))
    first = data.draw(st.integers(0, 59))
    how = data.draw(st.sampled_from(["twice", "gone", "swapped", "moved"]))
    if how == "twice":
        rows.insert(data.draw(st.integers(0, 60)), first)
    elif how == "gone" and (first == 59 or log["step"][first + 1] == 0):
        return  # without its last row, an episode is only a little shorter
    elif how == "gone":
        del rows[first]
    else:
        second = data.draw(st.integers(0, 59).filter(lambda row: row != first))
        rows[first], rows[second] = (rows[second], rows[first]) if how == "swapped" else (rows[second], rows[second])
    with pytest.raises(ModelError, match=r"at row \d+|; row \d+"):
        learn({name: values[rows] for name, values in log.items()})


def test_gaps_between_pieces():
    first, second = ({n: v[part] for n, v in LINE.items()} for part in (slice(0, 1), slice(1, 3)))
    assert same(learn([first, second]), learn(LINE))
    with pytest.raises(ModelError, match="in state 1; got state 2 at row 0"):
        learn([first, {n: v[2:] for n, v in LINE.items()}])
    with pytest.raises(ModelError, match="all parts of a log must have the same columns"):
        learn([first, second | {"step": [1, 2]}])


def test_repetitions_and_contradictions():
    twice = {n: [*v, v[-1]] for n, v in LINE.items()}
    with pytest.raises(ModelError, match="rows must not be repeated; row 3 repeats the row before"):
        learn(twice)
    with pytest.raises(ModelError, match=r"rows must not be repeated; row 3 repeats step 2. Remove it"):
        learn(twice | {"step": [0, 1, 2, 2]})
    with pytest.raises(ModelError, match="contradict itself; row 3 repeats step 2 with damage 0 instead of 1"):
        learn(twice | {"step": [0, 1, 2, 2], "d": [0, 2, 1, 0]})
    with pytest.raises(ModelError, match="cumulative damage must not fall; it changes by -1 at row 2"):
        learn({n: v for n, v in LINE.items() if n != "d"} | {"cumulative_cost": [0, 2, 1]})
    with pytest.raises(ModelError, match="must not grow by more than 1; it changes by 2 at row 1"):
        learn({n: v for n, v in LINE.items() if n != "d"} | {"cumulative_cost": [0, 2, 3]}, max_damage=1)
    with pytest.raises(ModelError, match="contradict each other; it changes by 1 where the damage is 2 at row 1"):
        learn(LINE | {"cumulative_damage": [0, 1, 2]})


def test_episodes_are_named_by_single_values():
    with pytest.raises(ModelError, match="episode must be a number or a text; got an array at row 0"):
        learn({**LINE, "episode": [[1], [1], [1]]})


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("s,a,s',d,d\n0,0,1,0,1\n")
    with pytest.raises(CorruptFile, match="multiple columns named d"):
        learn(path)


def test_columns_are_found_or_suggested():
    table = {n: v for n, v in LINE.items() if n != "d"}
    with pytest.raises(
        UnknownName,
        match=r"unknown column 'damage'. Did you mean 'damages'.* Columns that .* has: s, a, s', r, damages",
    ):
        learn(table | {"damages": LINE["d"]})
    assert same(learn(table | {"damages": LINE["d"]}, columns={"damage": "damages"}), learn(LINE))
    with pytest.raises(UnknownName, match=r"unknown column 'harms'. Did you mean 'harm'"):
        learn(table | {"harm": LINE["d"]}, columns={"damage": "harms"})
    with pytest.raises(UnknownName, match=r"unknown key of columns 'damages'. Did you mean 'damage'"):
        learn(LINE, columns={"damages": "d"})
    with pytest.raises(UnknownName, match="unknown column 'next_state'"):
        learn({"s": [0, 1], "a": [0, 0], "d": [0, 0]})
    with pytest.raises(ModelError, match=r"'d' and 'cost' could both be it. Pass columns={'damage': 'd'}"):
        learn(LINE | {"cost": LINE["d"]})


def test_a_column_that_may_mean_terminated_or_truncated_is_refused():
    ends = [False] * len(LINE["d"])
    plain = {name: column for name, column in LINE.items() if name not in ("terminated", "truncated")}
    with pytest.raises(ModelError, match=r"its column 'Done' means\. Rename it to terminated .* or to truncated"):
        learn(plain | {"Done": ends})
    assert same(learn(plain | {"done": ends}, columns={"truncated": "done"}), learn(plain | {"truncated": ends}))
    assert same(learn(plain | {"done": ends, "terminated": ends}), learn(plain | {"terminated": ends}))


def test_sizes():
    with pytest.raises(ModelError, match=r"next_state must be an integer 0 … 2; got 3 at row 2\. num_states is 3\."):
        learn(LINE, num_states=3)
    with pytest.raises(ModelError, match="it shows 1 in state 2, which has 0"):
        learn(LINE, actions=1)
    with pytest.raises(ModelError, match="it shows 1 in state 2, which has 0, 2"):
        learn(LINE, actions=lambda state: [0, 2])
    with pytest.raises(LimitReached, match="Number them from 0 on, without gaps"):
        learn(with_row(2, **{"s'": 10**12}))
    with pytest.raises(ModelError, match="must be equally long; got 2 of"):
        learn(LINE | {"d": [0, 1]})
    with pytest.raises(ModelError, match=r"damage must be an integer 0 … 255; got an array of shape \[2\] at row 0"):
        learn(LINE | {"d": np.zeros((3, 2))})


def test_bad_arguments(tmp_path):
    for name, value in (("mu", 0), ("mu", 1.5), ("delta", 1), ("delta", float("nan"))):
        with pytest.raises(ArgumentError, match=f"{name} must"):
            learn(LINE, **{name: value})
    with pytest.raises(ArgumentError, match=r"rarest outcome; got 0.6, but one choice showed 2 different outcomes"):
        learn({"s": [0, 0], "a": [0, 0], "s'": [0, 0], "d": [0, 1]}, mu=0.6)
    with pytest.raises(ModelError, match="damage must be a column, one entry per row; got 3"):
        learn(LINE | {"d": 3})
    with pytest.raises(ModelError, match=r"got 0\. Make columns of rows: {name: \[row\[name\] for row in rows\]"):
        learn([{"s": 0, "a": 0, "s'": 1, "d": 0}])
    with pytest.raises(ModelError, match=r"got int\. A table has columns by name: {'state': "):
        learn([(0, 0, 1, 0)])
    with pytest.raises(ModelError, match="state must be a column"):
        learn(LINE | {"s": 3})
    with pytest.raises(UnknownName, match="unknown value for unknown=: 'accept'"):
        learn(LINE, unknown="accept")
    with pytest.raises(ModelError, match="a log must hold at least one step"):
        learn({n: [] for n in LINE})
    with pytest.raises(ModelError, match="a log must hold at least one step"):
        learn([])
    with pytest.raises(ModelError, match="a log must be a path, a table"):
        learn(7)
    with pytest.raises(ArgumentError, match="max_damage must be at most 255; got 300"):
        learn(LINE, max_damage=300)
    with pytest.raises(FileError, match=r"must end in .csv, .parquet or .pq"):
        learn(tmp_path / "log.txt")
