"""`python -m runtime.gcs_proxy …`: an encrypting proxy for Cloud Storage, and a way to decrypt objects without it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from runtime.contract.errors import BadInput, ExitCode
from runtime.contract.keymap import parse_key

try:
    from runtime.gcs_proxy.decrypt import decrypt_file
    from runtime.gcs_proxy.format import Malformed
    from runtime.gcs_proxy.keys import KeyRing, make_key_file
    from runtime.gcs_proxy.kms import KeyDenied, KeyUnavailable
    from runtime.gcs_proxy.options import add_options, settings
    from runtime.gcs_proxy.serve import serve
except ModuleNotFoundError as error:
    if (error.name or "runtime").startswith("runtime"):
        raise
    print(
        f"the proxy needs {error.name}, which is not installed: in a clone of slicebench, pip install -e '.[proxy]'",
        file=sys.stderr,
    )
    sys.exit(int(ExitCode.BAD_INPUT))


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 0 done, 1 the object is not authentic or its key denied, 2 bad input, 3 no answer."""
    words = list(arguments)
    if not words or words[0] not in ("serve", "decrypt", "new-key", "-h", "--help"):
        words.insert(0, "serve")
    given, unknown = _parser().parse_known_args(words)
    if unknown:
        # Of its own command: the whole parser knows no options.
        given.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        given.do(given)
    except BadInput as error:
        return _failed(ExitCode.BAD_INPUT, error)
    except (Malformed, KeyDenied) as error:
        return _failed(ExitCode.WORKLOAD_FAILED, error)
    except (KeyUnavailable, OSError) as error:
        return _failed(ExitCode.INFRASTRUCTURE, error)
    return 0


def _failed(code: ExitCode, error: Exception) -> int:
    print(error, file=sys.stderr)
    return int(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m runtime.gcs_proxy",
        description=__doc__,
        epilog="`serve --help` lists the options of the proxy; docs/gcs_proxy.md explains all of it.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    proxy = commands.add_parser("serve", help="serve the proxy; the default command")
    add_options(proxy)
    proxy.set_defaults(parser=proxy, do=lambda given: serve(settings(given, os.environ)))
    _decrypting(commands.add_parser("decrypt", help="decrypt an object that was downloaded past the proxy"))
    new_key = commands.add_parser("new-key", help="write a new key file")
    new_key.add_argument("path", type=Path, metavar="FILE")
    new_key.set_defaults(parser=new_key, do=lambda given: make_key_file(given.path))
    return parser


def _decrypting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sealed", type=Path, metavar="FILE", help="the object's bytes, as they lie in the bucket"
    )
    parser.add_argument(
        "--resource",
        type=Path,
        required=True,
        metavar="JSON",
        help="what the JSON API says of the object: gcloud storage objects describe --raw --format=json",
    )
    parser.add_argument(
        "--key",
        action="append",
        required=True,
        help="projects/…/cryptoKeys/K or file:/path; may be given several times",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="where the plaintext goes")
    parser.add_argument("--kms-endpoint", metavar="HOST:PORT", help="a stand-in of Cloud KMS, without TLS")
    parser.set_defaults(parser=parser, do=_decrypt)


def _decrypt(given: argparse.Namespace) -> None:
    keys = KeyRing([parse_key(key) for key in given.key], given.kms_endpoint)
    decrypt_file(given.sealed, given.resource, given.output, keys)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
