"""A model from whatever names one: itself, an example's name, or a file."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path

from almostsure.errors import UnknownName
from almostsure.model.examples import example, example_names
from almostsure.model.files import STORM_ENDINGS, load
from almostsure.model.grid import from_map
from almostsure.model.mdp import MDP

Model = MDP | str | PathLike[str]  #: what every function that takes a model accepts


def as_model(model: Model) -> MDP:
    """The model that ``model`` names.

    Parameters
    ----------
    model
        A model, which is returned as it is; the name of an example; or the path of a UMB file (``.umb``) or of a
        text map (``.txt``, drawn as :func:`almostsure.model.grid.from_map` reads it, without slipping).

    Examples
    --------
    >>> from almostsure.model.source import as_model
    >>> as_model("paper")
    <MDP: 2 states, 3 choices, 3 outcomes, starts in circle>
    """
    if isinstance(model, MDP):
        return model
    if not isinstance(model, (str, PathLike)):
        raise TypeError(f"a model must be an MDP, an example's name or a path; got {type(model).__name__}")
    name = fspath(model)
    if name in example_names():
        return example(name)
    return _from_file(Path(name))


def _from_file(path: Path) -> MDP:
    suffix = path.suffix.lower()
    if suffix in (".umb", ".safetensors", *STORM_ENDINGS):  # load says who reads the others
        return load(path)
    if suffix == ".txt":
        return from_map(path)
    raise UnknownName(
        "model", str(path), example_names(), f"Name an example ({', '.join(example_names())}), or a .umb or .txt file."
    )
