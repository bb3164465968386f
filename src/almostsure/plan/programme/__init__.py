"""``Expected`` and ``Chance``, by linear programmes: the best return under them, with bounds."""
