#!/bin/sh
# Print a suitable Python for almostsure: the one given as argument, or else the first one found.
# A command may exist but not run (such as pyenv's shims), so each candidate is run to check its version.
set -eu

suitable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ $# -gt 0 ]; then
    if suitable "$1"; then
        echo "$1"
        exit 0
    fi
    found=$("$1" --version 2>/dev/null || echo "nothing that runs")
    echo "PYTHON must be Python 3.11 or newer; $1 is $found." >&2
    exit 1
fi

for candidate in python3 python3.13 python3.12 python3.11 python; do
    if suitable "$candidate"; then
        echo "$candidate"
        exit 0
    fi
done

echo "almostsure needs Python 3.11 or newer; found $(python3 --version 2>/dev/null || echo "no python3")." >&2
echo "Install one, or name it: make demo PYTHON=/path/to/python3.12" >&2
exit 1
