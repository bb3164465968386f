"""Tools for tests and benchmarks of code that uses this package.

- :func:`check_shielded_env` finds common mistakes of shielded Gymnasium environments;
- :func:`mdps` and :func:`transitions` are Hypothesis strategies for small models with many special cases
  (:mod:`almostsure.testing.models`); they need the extra ``test``;
- :func:`random_union` draws thousands of small random models as one (:mod:`almostsure.testing.unions`);
- :func:`chain`, :func:`garnet`, :func:`grid_family`, :func:`ladder` and :func:`rings` are seeded families of models of
  any size.
"""

from typing import TYPE_CHECKING

from almostsure.exports import on_demand

# On demand, because only the strategies need Hypothesis.
if TYPE_CHECKING:
    from almostsure.model.build.grid import grid_family
    from almostsure.testing.environments import check_shielded_env
    from almostsure.testing.families import chain, garnet, ladder, rings
    from almostsure.testing.models import Transitions, mdps, transitions
    from almostsure.testing.unions import random_union
else:
    __getattr__ = on_demand(__name__)

__all__ = [
    "Transitions",
    "chain",
    "check_shielded_env",
    "garnet",
    "grid_family",
    "ladder",
    "mdps",
    "random_union",
    "rings",
    "transitions",
]
