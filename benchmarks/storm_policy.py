"""The best return inside the shield by Storm, as somebody who knows Storm well would compute it: the budget is
unfolded into the states, unsafe ones are left out beforehand (for nothing), and Storm's sound solver does the rest.

    python benchmarks/storm_policy.py FILE.npz BUDGET DISCOUNT      one run, prints one line of JSON

The file holds a model's arrays and of_choice.  With DISCOUNT 1 every step costs 1 until a terminal state is reached.
"""  # noqa: D205

from __future__ import annotations

import json
import resource
import sys
import time

import numpy as np

from almostsure.model.mdp import MDP, Arrays


def unfold(arrays: dict[str, np.ndarray], budget: int, steps: bool) -> tuple[MDP, np.ndarray]:
    """The shielded model on (state, remaining), and the number of each pair (−1: infeasible)."""
    choice_ptr, of_choice = arrays["choice_ptr"], arrays["of_choice"]
    outcome_ptr = arrays["outcome_ptr"].astype(np.int64)
    count = choice_ptr.size - 1
    owner = np.repeat(np.arange(count), np.diff(choice_ptr))
    lengths = np.diff(outcome_ptr)
    allowed = [np.flatnonzero(of_choice <= k) for k in range(budget + 1)]
    number = np.full((budget + 1, count), -1, np.int64)
    for k in range(budget + 1):
        number[k, owner[allowed[k]]] = 0
    feasible = number >= 0
    number[feasible] = np.arange(feasible.sum())
    parts: dict[str, list[np.ndarray]] = {name: [] for name in ("owner", "action", "length", "to", "p", "r")}
    for k in range(budget + 1):
        kept = np.repeat(of_choice <= k, lengths)
        left = k - arrays["damage"][kept].astype(np.int64)
        parts["owner"].append(number[k, owner[allowed[k]]])
        parts["action"].append(arrays["choice_action"][allowed[k]])
        parts["length"].append(lengths[allowed[k]])
        parts["to"].append(number[left, arrays["successor"][kept]].astype(np.int32))
        parts["p"].append(arrays["probability"][kept])
        ends = np.repeat(arrays["terminal"][owner[allowed[k]]], lengths[allowed[k]])
        parts["r"].append((~ends).astype(float) if steps else arrays["reward"][kept])
    joined = {name: np.concatenate(part) for name, part in parts.items()}
    per_state = np.bincount(joined["owner"], minlength=int(feasible.sum()))
    offsets = np.concatenate([[0], np.cumsum(joined["length"])]).astype(np.int32)
    model = MDP(
        Arrays(
            choice_ptr=np.concatenate([[0], np.cumsum(per_state)]).astype(np.int32), choice_action=joined["action"],
            outcome_ptr=offsets, successor=joined["to"], probability=joined["p"], reward=joined["r"],
            damage=np.zeros(joined["to"].size, np.uint8),
        ),
        initial=(np.array([int(number[number >= 0][-1])]), np.ones(1)),
    )  # fmt: skip
    return model, number


def main() -> None:
    import stormpy

    from almostsure.model.storm.write import to_storm

    arrays = dict(np.load(sys.argv[1]))
    budget, discount = int(sys.argv[2]), float(sys.argv[3])
    model, number = unfold(arrays, budget, discount == 1)
    game = to_storm(model)
    del model
    formula = 'R{"reward"}min=? [F "terminal"]' if discount == 1 else f'R{{"reward"}}max=? [Cdiscount={discount}]'
    parsed = stormpy.parse_property(formula)
    wall, cpu = time.perf_counter(), time.process_time()
    result = stormpy.model_checking(game, parsed)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    values = np.array([result.get_value(i) for i in range(int(number.max()) + 1)])
    found = np.where(number >= 0, (-1 if discount == 1 else 1) * values[np.maximum(number, 0)], np.nan)
    np.save(sys.argv[1] + ".values.npy", found)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"wall": wall, "cpu": cpu, "peak_mb": peak, "states": int(number.max()) + 1}))


if __name__ == "__main__":
    main()
