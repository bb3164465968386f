"""``python -m almostsure`` is the ``almostsure`` command."""

from almostsure.cli import main

if __name__ == "__main__":
    main()
