"""The Markov decision process: how to build, change, load, save and draw one."""

from typing import TYPE_CHECKING

from almostsure.exports import on_demand

if TYPE_CHECKING:
    from almostsure.model.build.damage import known_damage
    from almostsure.model.build.examples import example, example_names
    from almostsure.model.build.function import from_function
    from almostsure.model.build.grid import Cell, from_map
    from almostsure.model.build.matrices import from_matrices
    from almostsure.model.build.tables import from_gymnasium, from_table
    from almostsure.model.build.transitions import from_transitions
    from almostsure.model.files import load
    from almostsure.model.layout import Layout
    from almostsure.model.mdp import MDP, Outcome
    from almostsure.model.monitors import ENDED, FORBIDDEN, Automaton, Monitor, Refill, SecondBudget, Steps
    from almostsure.model.products import product
    from almostsure.model.show.draw import draw_map
    from almostsure.model.source import as_model
    from almostsure.model.storm.read import from_prism
    from almostsure.model.storm.write import to_storm
else:
    __getattr__ = on_demand(__name__)

__all__ = [
    "ENDED",
    "FORBIDDEN",
    "MDP",
    "Automaton",
    "Cell",
    "Layout",
    "Monitor",
    "Outcome",
    "Refill",
    "SecondBudget",
    "Steps",
    "as_model",
    "draw_map",
    "example",
    "example_names",
    "from_function",
    "from_gymnasium",
    "from_map",
    "from_matrices",
    "from_prism",
    "from_table",
    "from_transitions",
    "known_damage",
    "load",
    "product",
    "to_storm",
]
