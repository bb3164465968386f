#!/bin/sh
# Write constraints.txt: the newest versions, including transitive ones, that are compatible with pyproject.toml; and
# requirements*.txt: those for the package, for the tests and linters, and for the documentation, with hashes.
# Run it with the oldest supported Python, so that the pins exist for all of them, and then run the tests.
set -eu

python=$(sh scripts/find-python.sh "$@")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$python" -m venv "$scratch/venv"
# PyTorch is updated here by hand: a new release has gigabytes and changes what agents learn.
"$scratch/venv/bin/pip" install -qq --disable-pip-version-check 'torch==2.13.0'
# hatchling and editables build the package; pip does not list build dependencies.
"$scratch/venv/bin/pip" install -qq --disable-pip-version-check '.[dev]' hatchling editables
{
    echo "# The versions that the tests ran with, transitive ones too.  Written by \`make pins\`; do not edit."
    "$scratch/venv/bin/pip" freeze --exclude almostsure | sed 's/+cpu$//'
} >"$scratch/constraints.txt"
mv "$scratch/constraints.txt" constraints.txt

"$scratch/venv/bin/pip" install -qq --disable-pip-version-check uv
printf 'hatchling\neditables\n' >"$scratch/build.in"

# hashed FILE WHAT PYTHON ARGUMENTS…: write a file of requirements in the pinned versions, with hashes.
hashed() {
    file=$1 what=$2 oldest=$3
    shift 3
    "$scratch/venv/bin/uv" pip compile -q "$@" --constraints constraints.txt --generate-hashes --universal \
        --python-version "$oldest" --no-annotate --no-header --output-file "$scratch/hashed.txt"
    {
        echo "# $what, with hashes.  Written by \`make pins\`; do not edit."
        # PyTorch and its dependencies have no hashes: machines with its CPU builds have other files.
        awk '/^[^ ]/ { kept = !/^(torch|triton|nvidia-.*|cuda-.*)==/ } kept' "$scratch/hashed.txt"
    } >"$scratch/$file"
    mv "$scratch/$file" "$file"
}
hashed requirements.txt "What the package and its build need" 3.11 pyproject.toml "$scratch/build.in"
hashed requirements-dev.txt "What the tests and the linters need" 3.11 pyproject.toml --extra storm --extra test --extra lint
hashed requirements-docs.txt "What the documentation needs" 3.11.5 pyproject.toml --extra docs
echo "constraints.txt: $(grep -c == constraints.txt) pins.  Now run make test lint docs."
