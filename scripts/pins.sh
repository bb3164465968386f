#!/bin/sh
# Write constraints.txt anew: the newest versions, transitive ones too, that fit pyproject.toml together; and of them
# requirements*.txt: what the package, the tests and linters, and the documentation need, with hashes.
# Run it with the oldest supported Python, so that the pins exist for all of them, and then the tests.
set -eu

python=$(sh scripts/find-python.sh "$@")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$python" -m venv "$scratch/venv"
# PyTorch moves on its own: a new release is gigabytes and changes what agents learn, so it is raised here by hand.
"$scratch/venv/bin/pip" install -qq --disable-pip-version-check 'torch==2.13.0'
# hatchling and editables build the package; pip does not list what it used to build.
"$scratch/venv/bin/pip" install -qq --disable-pip-version-check '.[dev]' hatchling editables
{
    echo "# The versions that the tests ran with, transitive ones too.  Written by \`make pins\`; do not edit."
    "$scratch/venv/bin/pip" freeze --exclude almostsure | sed 's/+cpu$//'
} >"$scratch/constraints.txt"
mv "$scratch/constraints.txt" constraints.txt

"$scratch/venv/bin/pip" install -qq --disable-pip-version-check uv
printf 'hatchling\neditables\n' >"$scratch/build.in"

# hashed FILE WHAT PYTHON ARGUMENTS…: all that is needed, in the pinned versions, with the hashes of all their files.
hashed() {
    file=$1 what=$2 oldest=$3
    shift 3
    "$scratch/venv/bin/uv" pip compile -q "$@" --constraints constraints.txt --generate-hashes --universal \
        --python-version "$oldest" --no-annotate --no-header --output-file "$scratch/hashed.txt"
    {
        echo "# $what, with hashes.  Written by \`make pins\`; do not edit."
        # PyTorch and what it brings have none: its files are others on machines that have its CPU builds.
        awk '/^[^ ]/ { kept = !/^(torch|triton|nvidia-.*|cuda-.*)==/ } kept' "$scratch/hashed.txt"
    } >"$scratch/$file"
    mv "$scratch/$file" "$file"
}
hashed requirements.txt "What the package and its build need" 3.11 pyproject.toml "$scratch/build.in"
hashed requirements-dev.txt "What the tests and the linters need" 3.11 pyproject.toml --extra storm --extra test --extra lint
hashed requirements-docs.txt "What the documentation needs" 3.11.5 pyproject.toml --extra docs
echo "constraints.txt: $(grep -c == constraints.txt) pins.  Now run make test lint docs."
