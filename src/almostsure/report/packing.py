"""Encodes arrays and names as text that is safe inside an HTML page."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.wording import as_json


def pack(values: npt.ArrayLike) -> dict[str, str]:
    """An array as little-endian bytes in base64, in the narrowest type that holds it; floats in single precision."""
    array = np.asarray(values)
    if array.dtype.kind == "f":
        kind = "f4"
    else:
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        kind = "i4" if low < 0 or high >= 2**16 else "u1" if high < 2**8 else "u2"
    with np.errstate(over="ignore"):  # larger numbers become infinite in single precision
        flat = array.astype(f"<{kind}").ravel()
    return {"type": kind, "bytes": base64.b64encode(flat.tobytes()).decode("ascii")}


def to_script(data: Any) -> str:
    """JSON that cannot end its ``<script>`` element, open a comment or break a line, whatever names it contains."""
    text = json.dumps(as_json(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = re.sub("[<>&\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", text)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # a lone surrogate becomes its escape
