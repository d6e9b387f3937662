#!/bin/sh
# First-run setup of a TPU VM: a Python that Orbax supports, in a venv of its own, with jax[tpu] and Orbax.
# Name it with `setup:` in a target file, and the venv's Python with `python: ~/slicebench-venv/bin/python`.
set -eu
venv="$HOME/slicebench-venv"
if ! command -v uv > /dev/null && [ ! -x "$HOME/.local/bin/uv" ]; then
  python3 -m pip install --quiet --user uv
fi
PATH="$HOME/.local/bin:$PATH"
[ -x "$venv/bin/python" ] || uv venv --quiet --python 3.12 "$venv"
uv pip install --quiet --python "$venv/bin/python" "jax[tpu]" orbax-checkpoint gcsfs psutil pyarrow pyyaml
