"""The tree of exceptions."""

import re

from almostsure import errors


def test_the_drawn_tree_is_the_real_one():
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__))
    kinds = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    real = {name for name, kind in kinds.items() if kind.__module__ == errors.__name__}
    assert real - {"AlmostSureError"} == drawn
    assert [name for name in real if not issubclass(kinds[name], errors.AlmostSureError)] == ["Interrupted"]


def test_ctrl_c_is_not_swallowed():
    error = errors.Interrupted("stopped", kept=3)
    assert isinstance(error, KeyboardInterrupt)
    assert not isinstance(error, (Exception, errors.AlmostSureError))
    assert error.kept == 3
