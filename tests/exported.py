"""What the tests of exports share."""

import importlib.util


def load(path):
    """The module in a file, as whoever gets an export imports it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
