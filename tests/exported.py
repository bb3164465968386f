"""A helper of the tests of exports."""

import importlib.util


def load(path):
    """Import the module in a file, like users of an export."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
