"""Train MaskablePPO so that no episode, in training or afterwards, ever takes more damage than its budget.

    python examples/train_maskable_ppo.py [--model hazard-map] [--budget 3] [--steps 200000] [--seed 0] [--save FILE]

Needs the extra deep: pip install 'almostsure[deep]'.
"""

import argparse

import almostsure as asure
from almostsure.gym.deep import load_agent, train_maskable_ppo


def main() -> None:
    """Train, evaluate, check and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="hazard-map", help="an example's name, or a .umb or .txt file")
    parser.add_argument("--budget", type=int, default=3, help="the budget of every episode")
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--save", help="write the network to this file (safetensors)")
    given = parser.parse_args()
    mdp = asure.model.as_model(given.model)

    # 1. Train.  The network only ever chooses among actions that keep the budget.
    agent = train_maskable_ppo(mdp, given.budget, total_timesteps=given.steps, seed=given.seed, device=given.device)
    print(f"{agent.damages.size:,} training episodes, with a damage of at most {agent.damages.max(initial=0)}")

    # 2. Evaluate the learned policy exactly, on every state with every remaining budget.
    learned = agent.evaluate()
    best = asure.solve_policy(mdp, asure.AlmostSure(given.budget))
    random = asure.evaluate(mdp, agent.shield.random_policy(given.budget))
    share = (learned.expected_return - random.expected_return) / (best.value - random.expected_return)
    print(learned)
    print(f"best return      {best.value:.10g}; random shielded play has {random.expected_return:.10g}")
    print(f"gap closed       {share:.1%}")

    # 3. Theorem 1: a policy that never plays what the shield refuses never overspends.
    assert agent.shield.is_feasible(agent.policy(), given.budget)

    # 4. Save it.  The file holds numbers only: reading it runs no code.
    if given.save:
        agent.save(given.save)
        assert load_agent(given.save, mdp).policy() == agent.policy()
        print(f"saved to {given.save}")


if __name__ == "__main__":
    main()
