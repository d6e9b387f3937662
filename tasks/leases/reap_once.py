"""`python -m tasks.leases.reap_once --ledger URI`: the reaper by itself, in a container far from who launched the run.

It needs neither Prefect nor the launching machine: whatever lies in a cloud is deleted from anywhere. What only
the launching machine can look at (its processes and folders) is left in the lease, and said to be.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from runtime.contract.errors import ExitCode, SlicebenchError
from tasks.leases import reaper
from tasks.leases.inventory import open_inventories
from tasks.leases.judging import CONFIRM_S
from tasks.leases.opening import open_ledger


def main(argv: Sequence[str] | None = None) -> int:
    """Reaps once; returns the exit code: 5 when something could not be proven gone, 3 when it could not look."""
    words = _parser().parse_args(argv)
    try:
        ledger = open_ledger(words.ledger)
        if not ledger.exists():
            _say(f"nothing was ever held in {ledger.uri}")
            return ExitCode.DONE
        inventories = open_inventories(ledger, None)
        findings = reaper.reap(ledger, inventories, dry_run=words.dry_run, confirm_s=words.watch)
    except SlicebenchError as error:
        _say(str(error))
        return error.exit_code
    for finding in findings:
        _say(f"{finding.lease_id}: {finding.did}: {finding.why}")
    if words.json:
        told = {"ledger": ledger.uri, "findings": [asdict(one) for one in findings]}
        print(json.dumps(told), flush=True)
    return reaper.exit_code(findings)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tasks.leases.reap_once", description=__doc__)
    parser.add_argument("--ledger", required=True, metavar="URI", help="gs://bucket/folder, or a path")
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")
    parser.add_argument(
        "--watch",
        type=float,
        default=CONFIRM_S,
        metavar="SECONDS",
        help="how long an expired lease is watched for a renewal before it is released",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    return parser


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
