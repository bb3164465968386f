"""The best return inside the shield, with proved bounds; ``layers.py`` is the entry, ``engine.py`` the method."""
