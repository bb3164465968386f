"""The most likely run of a policy."""

import almostsure as asure
from almostsure.policy.play import likeliest_run


def test_a_run_skips_waiting() -> None:
    mdp = asure.from_transitions(  # a gate that rarely opens, and then does damage
        [0, 0, 1, 1, 1], [0] * 5, [0, 1, 1, 2, 2], [0.9, 0.1, 0.8, 0.15, 0.05], [0] * 5, [0, 0, 0, 1, 0], terminal=[2]
    )
    policy = asure.Policy.from_table(mdp, [0, 0, 0])
    assert likeliest_run(policy, 0, None) == [(0, 0, 0), (1, 0, 1), (2, -1, 0)]
    assert likeliest_run(policy, 2, None) == [(2, -1, 0)]


def test_a_run_that_only_waits_is_over_when_it_repeats_itself() -> None:
    mdp = asure.from_transitions([0], [0], [0], [1], [0], [0])
    assert likeliest_run(asure.Policy.from_table(mdp, [0]), 0, None) == [(0, -1, 0)]
    left = asure.Policy.from_table(asure.example("paper"), {"circle": "left", "square": 0})
    assert likeliest_run(left, 0, 2)[:3] == [(0, 0, 1)] * 3
