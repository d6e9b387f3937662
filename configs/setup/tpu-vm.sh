#!/bin/sh
# First-run setup of a TPU VM: a Python that Orbax supports, in a venv of its own, with jax[tpu] and Orbax.
# Name it with `setup:` in a target file, and the venv's Python with `python: ~/slicebench-venv/bin/python`.
# Scripts of your own go instead of it, or besides it: setup: [configs/setup/tpu-vm.sh, mine.sh]
set -eu
venv="$HOME/slicebench-venv"
if ! command -v git > /dev/null; then
  # apt's locks are free when this begins; right after boot a mirror may still not answer.
  tries=5
  until sudo apt-get update -qq && sudo apt-get install -y -qq git; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || exit 1
    sleep 5
  done
fi
if ! command -v uv > /dev/null && [ ! -x "$HOME/.local/bin/uv" ]; then
  python3 -m pip install --quiet --user uv
fi
PATH="$HOME/.local/bin:$PATH"
[ -x "$venv/bin/python" ] || uv venv --quiet --python 3.12 "$venv"
uv pip install --quiet --python "$venv/bin/python" "jax[tpu]" orbax-checkpoint gcsfs psutil pyarrow pyyaml
