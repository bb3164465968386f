"""For tests of code that uses this package.

- :func:`check_shielded_env` finds the classic mistakes of shielded Gymnasium environments;
- :func:`mdps` and :func:`transitions` are Hypothesis strategies for small, hostile models
  (:mod:`almostsure.testing.models`); they need the extra ``test``.
"""

from typing import TYPE_CHECKING, Any

from almostsure.testing.environments import check_shielded_env

if TYPE_CHECKING:
    from almostsure.testing.models import Transitions, mdps, transitions

__all__ = ["Transitions", "check_shielded_env", "mdps", "transitions"]


def __getattr__(name: str) -> Any:
    """Import Hypothesis only when a strategy is asked for: the rest must work without it."""
    if name in ("Transitions", "mdps", "transitions"):
        from almostsure.testing import models

        return getattr(models, name)
    raise AttributeError(f"module 'almostsure.testing' has no attribute {name!r}")
