"""The tree of exceptions, and errors in users' code."""

import re

import pytest

from almostsure import errors
from almostsure.errors import Blame, ModelError, UnknownName, nearest


def test_the_drawn_tree_is_the_real_one():
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__))
    kinds = {
        name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, BaseException)
    }
    real = {name for name, kind in kinds.items() if kind.__module__ == errors.__name__}
    assert real - {"AlmostSureError"} == drawn
    assert [name for name in real if not issubclass(kinds[name], errors.AlmostSureError)] == ["Interrupted"]


def test_ctrl_c_is_not_swallowed():
    error = errors.Interrupted("stopped", kept=3)
    assert isinstance(error, KeyboardInterrupt)
    assert not isinstance(error, (Exception, errors.AlmostSureError))
    assert error.kept == 3


def test_errors_of_users_code_name_the_call() -> None:
    wanted = pytest.raises(ModelError, match=r"^encode failed: ZeroDivisionError: division by zero$")
    with wanted as told, Blame(lambda: "encode failed", state=3):
        1 / 0  # noqa: B018
    assert told.value.state == 3
    assert isinstance(told.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("passes", [UnknownName("state", "x", ()), KeyboardInterrupt("stop")])
def test_our_own_errors_and_ctrl_c_pass_unchanged(passes: BaseException) -> None:
    with pytest.raises(type(passes), match=str(passes)) as told, Blame(lambda: "never asked"):
        raise passes
    assert told.value is passes


def test_of_names_that_are_equally_similar_the_first_letter_decides():
    assert nearest("attackz", ["attacks", "pAttack"]) == "attacks"
    assert nearest("attackz", ["pAttack", "attacks"]) == "attacks"
    assert nearest("", ["attacks"]) is None
