"""``to_storm``: models for Storm, in memory."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from almostsure.errors import ModelError, optional
from almostsure.model.files import save
from almostsure.model.source import Model, as_model


def to_storm(mdp: Model) -> Any:
    """The model as stormpy's ``SparseMdp``.

    It has the reward models ``damage`` and ``reward``, and ``cost`` if no reward is positive; the labels ``init``,
    ``terminal`` and ``relay``; and the actions as choice labels.  A model from a file of Storm or PRISM also has the
    labels, reward structures and valuations of that file.

    Storm allows only one outcome per choice and successor.  Others pass through relay states, which come after the
    model's states and have the label ``relay`` (see :func:`almostsure.model.files.save`).

    Parameters
    ----------
    mdp
        The model, an example's name, or a file.

    Examples
    --------
    >>> import almostsure as asure
    >>> to_storm(asure.example("paper")).nr_states
    2
    """
    stormpy = optional("stormpy", "storm", "developer", "io")
    with tempfile.TemporaryDirectory(prefix="almostsure-") as folder:
        file = os.path.join(folder, "model.umb")
        save(as_model(mdp), file, relay=True)
        options = stormpy.io.UmbImportOptions()
        level = stormpy.developer.get_log_level()
        stormpy.developer.set_log_level(stormpy.developer.LogLevel.OFF)  # the exception has the message too
        try:
            return stormpy.build_model_from_umb(file, options=options)
        except (RuntimeError, stormpy.exceptions.StormError) as error:
            raise ModelError(f"Storm refuses the model: {str(error).strip()}") from error
        finally:
            stormpy.developer.set_log_level(level)
