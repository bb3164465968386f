"""Numbers that users give: taken if they are what they should be, refused otherwise, never rounded."""

from __future__ import annotations

from numbers import Real

import numpy as np

from almostsure.errors import ArgumentError


def whole(name: str, value: object) -> int:
    """``value`` as an int if it is a whole number, of either sign; 3.0 and NumPy integers are, True is not."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise ArgumentError(f"{name} must be a whole number; got {value!r}")
    try:
        number = int(value)  # type: ignore[call-overload]
    except (OverflowError, ValueError):  # ∞, NaN
        raise ArgumentError(f"{name} must be a whole number; got {value!r}") from None
    if number != value:
        raise ArgumentError(f"{name} must be a whole number; got {value!r}")
    return int(number)
