"""``Interval``: arrays of intervals that can be passed to NumPy code.

An ``Interval`` holds two float64 arrays, ``low`` and ``high``.  For all points of the arguments, the result of a NumPy
operation lies in the interval that the same operation returns here, in real arithmetic and in float64:

- ``+ − × ÷ sqrt`` are correctly rounded by IEEE 754, so moving each bound outwards by one unit in the last place
  encloses both the real result and the rounded one (rounding is monotone).  Bounds are moved by
  ``|x| · 2⁻⁵² + 2⁻¹⁰²²``, which is at least one unit and much faster than ``nextafter``, and not at all where a sum is
  exact;
- functions of the mathematical library are not correctly rounded.  NumPy states an error of about 1 unit in double
  precision; ``LIBRARY`` = 4 units are allowed, and for sin and cos an absolute error of 2⁻⁵⁰.

A comparison that intervals may leave undecided is a :class:`Maybe`: *surely* and *possibly* true.  ``np.where`` takes
the hull of both branches where it is undecided.  NaN in a bound means "nothing is known", in comparisons too.  Any
operation that is not listed in ``FUNCTIONS`` is an error that names the operation and the line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from almostsure.abstract.compiled import rounding
from almostsure.abstract.enclosure.refusal import refuse, where_in_user_code
from almostsure.abstract.enclosure.sharing import remembered
from almostsure.errors import ModelError
from almostsure.wording import counted

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
LIBRARY = 4  # units in the last place allowed for functions of the mathematical library
WAVE = 2.0**-50  # absolute error allowed for sin and cos
FAR = 1e6  # beyond this, sin and cos are anything in [−1, 1]


class Maybe(np.lib.mixins.NDArrayOperatorsMixin):
    """The result of comparing intervals: where it is surely true and where it is possibly true.

    Parameters
    ----------
    surely, possibly
        Boolean arrays; ``possibly`` is true wherever ``surely`` is.

    Examples
    --------
    >>> answer = Interval([0.0, 2.0, 4.0], [1.0, 3.0, 5.0]) < 2.5
    >>> answer.surely.tolist(), answer.possibly.tolist()
    ([True, False, False], [True, True, False])
    """

    __slots__ = ("surely", "possibly")

    def __init__(self, surely: npt.ArrayLike, possibly: npt.ArrayLike) -> None:
        self.surely: Bools = np.asarray(surely, np.bool_)
        self.possibly: Bools = np.asarray(possibly, np.bool_)

    @classmethod
    def of(cls, value: Any) -> Maybe:
        """``value`` itself, or booleans as a decided result."""
        return value if isinstance(value, Maybe) else cls(np.asarray(value, bool), np.asarray(value, bool))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **_: Any) -> Maybe:
        if method != "__call__" or ufunc not in LOGIC:
            refuse(f"numpy.{ufunc.__name__}", "comparisons of intervals can only be combined by & | ^ ~ and np.where")
        return remembered(combined, ufunc, *inputs)  # type: ignore[no-any-return]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return array_function(function, args, kwargs)

    def __bool__(self) -> bool:
        refuse(
            "if, and, or, not or a chained comparison",
            "intervals may not decide it. Use np.where for if, & for and, | for or, ~ for not",
        )

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        refuse("the conversion to a NumPy array", "a comparison of intervals is not an array of booleans")


def combined(ufunc: np.ufunc, *values: Any) -> Maybe:
    """A logical function of results and booleans."""
    return LOGIC[ufunc](*map(Maybe.of, values))


LOGIC: dict[np.ufunc, Callable[..., Maybe]] = {}
for _name in ("bitwise_and", "logical_and"):
    LOGIC[getattr(np, _name)] = lambda a, b: Maybe(a.surely & b.surely, a.possibly & b.possibly)
for _name in ("bitwise_or", "logical_or"):
    LOGIC[getattr(np, _name)] = lambda a, b: Maybe(a.surely | b.surely, a.possibly | b.possibly)
for _name in ("invert", "logical_not"):
    LOGIC[getattr(np, _name)] = lambda a: Maybe(~a.possibly, ~a.surely)
for _name in ("bitwise_xor", "logical_xor"):
    LOGIC[getattr(np, _name)] = lambda a, b: Maybe(
        (a.surely & ~b.possibly) | (b.surely & ~a.possibly), (a.possibly | b.possibly) & ~(a.surely & b.surely)
    )


class Interval(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of intervals [low, high].  See the module's docstring.

    Parameters
    ----------
    low, high
        Arrays that can be broadcast to one shape, with low ≤ high.

    Examples
    --------
    >>> x = Interval(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    >>> y = x * x - 1
    >>> bool(y.low[0] <= -1 and y.high[1] >= 3)
    True
    >>> np.where(x > 1.5, 1.0, 0.0)
    Interval([0. 0.], [0. 1.])
    """

    __slots__ = ("low", "high")

    def __init__(self, low: npt.ArrayLike, high: npt.ArrayLike) -> None:
        self.low: Floats = np.asarray(low, np.float64)
        self.high: Floats = np.asarray(high, np.float64)

    @classmethod
    def of(cls, value: Any) -> Self:
        """``value`` itself, or numbers as intervals of one point each."""
        if isinstance(value, cls):
            return value
        try:
            point = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            refuse(f"a value of type {type(value).__name__}", "intervals only combine with numbers and intervals")
        return cls(point, point)

    @property
    def shape(self) -> tuple[int, ...]:
        """The common shape of the bounds."""
        return np.broadcast_shapes(self.low.shape, self.high.shape)

    def contains(self, points: npt.ArrayLike) -> Bools:
        """A mask of the points that lie in their interval."""
        at = np.asarray(points, np.float64)
        inside: Bools = (self.low <= at) & (at <= self.high)
        return inside

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or ufunc not in FUNCTIONS or set(kwargs) - {"out"}:
            how = "" if method == "__call__" else f".{method}"
            known = ", ".join(sorted(f.__name__ for f in FUNCTIONS))
            refuse(f"numpy.{ufunc.__name__}{how}", f"intervals support {known}")
        with np.errstate(all="ignore"):  # NaN means "nothing is known", and propagates
            return remembered(FUNCTIONS[ufunc], *inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return array_function(function, args, kwargs)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        refuse("the conversion to a NumPy array", "return a tuple of coordinates, and compute with each of them")

    def __float__(self) -> float:
        refuse("float() or a function of the math module", "use NumPy's function of the same name")

    def __int__(self) -> int:
        refuse("int()", "use np.floor or np.where")

    def __index__(self) -> int:
        refuse("an index", "an interval is not one number. Use np.where")

    def __round__(self, *_: Any) -> NoReturn:
        refuse("round()", "use np.floor or np.where")

    def __repr__(self) -> str:
        return f"Interval({self.low}, {self.high})"


# ---------------------------------------------------------------------- rounding


def down(value: Floats, units: int = 1) -> Floats:
    """``value`` moved down by at least ``units`` units in the last place."""
    moved = value - (np.abs(value) * (units * rounding.UNIT) + rounding.LEAST)
    return np.asarray(moved)


def up(value: Floats, units: int = 1) -> Floats:
    """``value`` moved up by at least ``units`` units in the last place."""
    moved = value + (np.abs(value) * (units * rounding.UNIT) + rounding.LEAST)
    return np.asarray(moved)


# ---------------------------------------------------------------------- arithmetic


def is_number(x: Interval, value: float) -> bool:
    """Whether an interval is a given number."""
    return x.low.ndim == 0 and x.low is x.high and bool(x.low == value)


def add(a: Any, b: Any) -> Interval:
    """The sum; adding 0 is exact."""
    x, y = Interval.of(a), Interval.of(b)
    if is_number(x, 0.0) or is_number(y, 0.0):
        return y if is_number(x, 0.0) else x
    return Interval(rounding.add_down(x.low, y.low), rounding.add_up(x.high, y.high))


def subtract(a: Any, b: Any) -> Interval:
    """The difference; subtracting 0 is exact."""
    x, y = Interval.of(a), Interval.of(b)
    if is_number(y, 0.0):
        return x
    return Interval(rounding.add_down(x.low, -y.high), rounding.add_up(x.high, -y.low))


def multiply(a: Any, b: Any) -> Interval:
    """The product; exact for the numbers 0 and 1."""
    if not isinstance(a, Interval):
        a, b = b, a
    x, y = Interval.of(a), Interval.of(b)
    if is_number(y, 1.0):
        return x
    if is_number(y, 0.0) and np.isfinite(x.low).all() and np.isfinite(x.high).all():
        return y
    if y.low is y.high and y.low.ndim == 0:
        least, most = (x.low, x.high) if y.low >= 0 else (x.high, x.low)
        return Interval(rounding.multiply_down(least, y.low), rounding.multiply_up(most, y.low))
    return of_corners(np.multiply, x, y)


def divide(a: Any, b: Any) -> Interval:
    """The quotient; the divisor must not contain 0."""
    x, y = Interval.of(a), Interval.of(b)
    around = ~((y.low > 0) | (y.high < 0))
    if around.any():
        low, high = (float(np.broadcast_to(bound, around.shape)[around][0]) for bound in (y.low, y.high))
        raise ModelError(
            f"a divisor must not contain 0; got [{low:g}, {high:g}] at {where_in_user_code()} "
            f"({counted(int(around.sum()), 'cell')}). Make the box smaller there, or bound the divisor with np.maximum."
        )
    return of_corners(np.divide, x, y)


def of_corners(function: np.ufunc, x: Interval, y: Interval) -> Interval:
    """A function of two intervals that attains its extremes at the corners."""
    low = high = function(x.low, y.low)
    for end in (function(x.low, y.high), function(x.high, y.low), function(x.high, y.high)):
        low, high = np.minimum(low, end), np.maximum(high, end)
    return Interval(down(low), up(high))


def absolute(a: Interval) -> Interval:
    """Absolute values; exact."""
    return Interval(np.maximum(np.maximum(a.low, -a.high), 0.0), np.maximum(-a.low, a.high))


def square(a: Interval) -> Interval:
    """The square, which is never negative: tighter than a × a."""
    size = absolute(a)
    return Interval(np.maximum(down(size.low * size.low), 0.0), up(size.high * size.high))


def power(a: Any, b: Any) -> Interval:
    """Powers with a constant exponent; if that is not a whole number, the base must not be negative."""
    if isinstance(b, Interval) or np.ndim(b) != 0:
        refuse("a power whose exponent is an interval or an array", "write it with np.exp and np.log")
    exponent = float(b)
    if exponent == 0:
        return Interval.of(1.0)
    if exponent == 1:
        return Interval.of(a)
    if exponent == 2:
        return square(a)
    if exponent < 0:
        return divide(1.0, power(a, -exponent))
    if not exponent.is_integer() and bool((a.low < 0).any()):
        refuse(f"** {exponent:g} of a base that may be negative", "bound the base with np.maximum")
    base = a if not exponent.is_integer() or exponent % 2 else absolute(a)
    return Interval(down(np.power(base.low, exponent), LIBRARY), up(np.power(base.high, exponent), LIBRARY))


# ---------------------------------------------------------------------- functions


def increasing(function: np.ufunc) -> Callable[[Interval], Interval]:
    """A monotonically increasing function, of intervals."""

    def apply(a: Interval) -> Interval:
        return Interval(down(function(a.low), LIBRARY), up(function(a.high), LIBRARY))

    return apply


def sqrt(a: Interval) -> Interval:
    """The square root of intervals without negative numbers."""
    if bool((a.low < 0).any()):
        refuse("numpy.sqrt of an interval that reaches below 0", "bound it with np.maximum(…, 0)")
    return Interval(np.maximum(down(np.sqrt(a.low)), 0.0), up(np.sqrt(a.high)))


def log(a: Interval) -> Interval:
    """The natural logarithm of positive intervals."""
    if bool((a.low <= 0).any()):
        refuse("numpy.log of an interval that reaches 0", "bound it with np.maximum")
    return increasing(np.log)(a)


def holds_whole(low: Floats, high: Floats) -> Bools:
    """Whether an interval contains, or nearly contains, a whole number."""
    margin = 1e-12 * (1.0 + np.abs(low) + np.abs(high))
    inside: Bools = np.floor(high + margin) >= np.ceil(low - margin)
    return inside


def wave(function: np.ufunc, peak: float) -> Callable[[Interval], Interval]:
    """Sin or cos, whose maximum lies at ``peak`` periods."""

    def apply(a: Interval) -> Interval:
        turn = 1.0 / (2.0 * np.pi)
        low, high = a.low * turn - peak, a.high * turn - peak
        far = ~((np.abs(a.low) < FAR) & (np.abs(a.high) < FAR))
        one, two = function(a.low), function(a.high)
        top = np.where(holds_whole(low, high) | far, 1.0, np.maximum(one, two) + WAVE)
        bottom = np.where(holds_whole(low - 0.5, high - 0.5) | far, -1.0, np.minimum(one, two) - WAVE)
        return Interval(np.maximum(bottom, -1.0), np.minimum(top, 1.0))

    return apply


def tan(a: Interval) -> Interval:
    """The tangent; [−∞, ∞] where the interval contains a pole."""
    turn = 1.0 / np.pi
    pole = holds_whole(a.low * turn - 0.5, a.high * turn - 0.5) | ~((np.abs(a.low) < FAR) & (np.abs(a.high) < FAR))
    low, high = down(np.tan(a.low), LIBRARY), up(np.tan(a.high), LIBRARY)
    return Interval(np.where(pole, -np.inf, low), np.where(pole, np.inf, high))


def monotone_in_both(function: np.ufunc) -> Callable[[Any, Any], Interval]:
    """Minimum or maximum; exact."""

    def apply(a: Any, b: Any) -> Interval:
        x, y = Interval.of(a), Interval.of(b)
        return Interval(function(x.low, y.low), function(x.high, y.high))

    return apply


# ---------------------------------------------------------------------- comparisons and NumPy functions


def less(a: Any, b: Any) -> Maybe:
    """A < b."""
    x, y = Interval.of(a), Interval.of(b)
    return Maybe(x.high < y.low, ~(x.low >= y.high))


def less_equal(a: Any, b: Any) -> Maybe:
    """A ≤ b."""
    x, y = Interval.of(a), Interval.of(b)
    return Maybe(x.high <= y.low, ~(x.low > y.high))


def equal(a: Any, b: Any) -> Maybe:
    """A = b: surely only where both are the same single point."""
    x, y = Interval.of(a), Interval.of(b)
    point = (x.low == x.high) & (y.low == y.high) & (x.low == y.low)
    return Maybe(point, ~((x.high < y.low) | (y.high < x.low)))


def where(condition: Any, a: Any, b: Any) -> Interval:
    """``a`` where the condition surely holds, ``b`` where it surely does not, otherwise the hull of both."""
    c, x, y = Maybe.of(condition), Interval.of(a), Interval.of(b)
    low = np.where(c.surely, x.low, np.where(c.possibly, np.minimum(x.low, y.low), y.low))
    high = np.where(c.surely, x.high, np.where(c.possibly, np.maximum(x.high, y.high), y.high))
    return Interval(low, high)


def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """``a`` between two bounds, either of which may be None."""
    least, most = a_min if min is None else min, a_max if max is None else max
    result = a if least is None else FUNCTIONS[np.maximum](a, least)
    return result if most is None else FUNCTIONS[np.minimum](result, most)


def array_function(function: Any, args: Any, kwargs: Any) -> Any:
    """NumPy's functions that are not ufuncs."""
    if function is np.where and len(args) == 3:
        return remembered(where, *args)
    if function is np.clip:
        return clip(*args, **kwargs)
    refuse(f"numpy.{function.__name__}", "of the functions that are not ufuncs, intervals only support where and clip")


FUNCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: add,
    np.subtract: subtract,
    np.multiply: multiply,
    np.divide: divide,
    np.negative: lambda a: Interval(-a.high, -a.low),
    np.positive: lambda a: a,
    np.absolute: absolute,
    np.fabs: absolute,
    np.square: square,
    np.power: power,
    np.float_power: power,
    np.reciprocal: lambda a: divide(1.0, a),
    np.sqrt: sqrt,
    np.exp: lambda a: Interval(np.maximum(down(np.exp(a.low), LIBRARY), 0.0), up(np.exp(a.high), LIBRARY)),
    np.log: log,
    np.sin: wave(np.sin, 0.25),
    np.cos: wave(np.cos, 0.0),
    np.tan: tan,
    np.arctan: increasing(np.arctan),
    np.tanh: increasing(np.tanh),
    np.sinh: increasing(np.sinh),
    np.minimum: monotone_in_both(np.minimum),
    np.maximum: monotone_in_both(np.maximum),
    np.floor: lambda a: Interval(np.floor(a.low), np.floor(a.high)),
    np.sign: lambda a: Interval(np.sign(a.low), np.sign(a.high)),
    np.less: less,
    np.less_equal: less_equal,
    np.greater: lambda a, b: less(b, a),
    np.greater_equal: lambda a, b: less_equal(b, a),
    np.equal: equal,
    np.not_equal: lambda a, b: LOGIC[np.logical_not](equal(a, b)),
}
