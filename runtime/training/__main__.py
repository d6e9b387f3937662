"""`python -m runtime.training --directory gs://BUCKET/FOLDER …`: trains a small transformer, and resumes from there."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from runtime.contract.errors import BadInput, ExitCode, WorkloadFailed
from runtime.contract.options import options_of
from runtime.contract.options_training import TransformerOptions

_KINDS = {"int": int, "float": float, "str": str}
_HELP = {
    "directory": "folder of the checkpoints; training resumes from the newest complete one",
    "resume_from": "folder of a step to start from while --directory has no checkpoint",
    "train_steps": "number of steps to train",
    "save_interval_steps": "steps between checkpoints",
    "max_to_keep": "how many checkpoints to keep",
    "restores": "how often to restore the newest checkpoint at the end",
    "layers": "number of layers",
    "width": "size of the embedding",
    "heads": "number of attention heads",
    "vocabulary": "size of the vocabulary",
    "sequence": "tokens in a sequence",
    "batch": "sequences in a step, for each data-parallel group",
    "step_s": "shortest duration of a step, seconds",
}


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 0 trained to the end, 1 a checkpoint is not what was saved, 2 bad input, 3 a storage or
    another process does not answer.
    """
    given = vars(_parser().parse_args(arguments))
    parts, seed = given.pop("model_parallel"), given.pop("seed")
    try:
        options = TransformerOptions(**given)
        if why := type(options).rule(vars(options)) or (parts < 1 and "model_parallel must be positive"):
            raise BadInput(why)
        from runtime.training.program import join, train

        join()
        train(options, parts, seed, lambda line: print(line, flush=True))
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return ExitCode.BAD_INPUT
    except WorkloadFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return ExitCode.WORKLOAD_FAILED
    except OSError as error:  # so are those of the clients of Cloud Storage, and a disk that is full
        print(f"error: {error}", file=sys.stderr)
        return ExitCode.INFRASTRUCTURE
    return ExitCode.DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m runtime.training",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    for option in options_of(TransformerOptions):
        if option.name in _HELP:
            parser.add_argument(
                f"--{option.name.replace('_', '-')}",
                type=_KINDS[option.kind],
                default=option.default,
                required=option.name == "directory",
                help=_HELP[option.name],
            )
    parser.add_argument(
        "--model-parallel", type=int, default=1, help="number of devices that each layer is split over"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the initial weights and of the generated tokens"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
