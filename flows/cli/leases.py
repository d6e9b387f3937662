"""`slicebench leases` and `slicebench reap`: what is held by whom, and getting rid of what should not be."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from flows.cli.said import Json, print_json, say
from flows.cli.verbose import Verbose, show_calls
from runtime.contract.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from tasks.leases.finding import Finding
    from tasks.leases.lease import Lease
    from tasks.leases.resource import ResourceRef


def leases(
    *,
    all: Annotated[
        bool, Parameter(negative="", show_default=False, help="Show those that are gone as well")
    ] = False,
    json: Json = False,
) -> int:
    """Show what slicebench holds, who holds it, and what would become of it now."""
    from tasks.leases.judging import judge_from_here
    from tasks.leases.lease import State
    from tasks.leases.opening import the_ledger

    ledger = the_ledger()
    listing = ledger.listing()
    now = time.time()
    shown = [lease for lease in listing.leases if all or _counts(lease)]
    leaked = any(lease.state is State.LEAKED for lease in shown)
    if json:
        rows = []
        for lease in shown:
            verdict = judge_from_here(lease, now)
            rows.append({**asdict(lease), "reaper": {"act": verdict.act, "why": verdict.why}})
        print_json(
            {"ledger": ledger.uri, "leases": rows, "unreadable": [str(error) for error in listing.unreadable]}
        )
    else:
        for lease in shown:
            verdict = judge_from_here(lease, now)
            print(_row(lease, now))
            print(f"    {'fine' if verdict.act == 'keep' else 'reapable'}: {verdict.why}")
            if words := _elsewhere(lease):
                print(f"    its run: {words}")
            for line in lease.forgotten:
                print(f"    forgotten: {line}")
        for error in listing.unreadable:
            say(str(error))
        if not shown and not listing.unreadable:
            say(f"nothing is held ({ledger.uri})")
    return ExitCode.LEAKED if leaked else ExitCode.INFRASTRUCTURE if listing.unreadable else ExitCode.DONE


def reap(
    *,
    dry_run: Annotated[
        bool, Parameter(negative="", show_default=False, help="Only say what would go")
    ] = False,
    lease: Annotated[
        str | None, Parameter(help="Only this lease, now, though it is kept: its name or id")
    ] = None,
    forget: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="With --lease: strike off what is gone for good where nobody can look, by kind, name or place",
        ),
    ] = (),
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Delete what outlived its lease, and say why. Exit code 5: something could not be proven gone."""
    show_calls(verbose)
    from tasks.leases import reaper
    from tasks.leases.giving_up import give_up
    from tasks.leases.opening import the_inventories, the_ledger

    ledger = the_ledger()
    findings: list[Finding] = []
    if forget and lease is None:
        raise BadInput("--forget is for one lease", fix="name it with --lease: see slicebench leases")
    if lease is not None and not ledger.exists():
        raise BadInput(f"there is no lease {lease}: nothing was ever held ({ledger.uri})")
    if ledger.exists():
        inventories = the_inventories(ledger)
        if lease is None:
            findings = reaper.reap(ledger, inventories, dry_run=dry_run)
        else:
            findings = [give_up(ledger, inventories, lease, forget=forget, dry_run=dry_run)]
    code = reaper.exit_code(findings)
    if lease is not None and any(finding.did in ("not reachable", "elsewhere") for finding in findings):
        code = ExitCode.INFRASTRUCTURE
    if json:
        print_json({"ledger": ledger.uri, "dry_run": dry_run, "findings": [asdict(one) for one in findings]})
    else:
        for finding in findings:
            print(
                f"{finding.lease_id}: {finding.did}: {finding.why}", *_resources(finding.resources), sep="\n"
            )
        if lease is None and not any(finding.did != "kept" for finding in findings):
            say(f"nothing to reap ({ledger.uri})")
    return code


def _counts(lease: Lease) -> bool:
    """Says whether a lease holds anything: one that is gone does not, nor does a lock that is free."""
    from tasks.leases.lease import State, is_lock

    return bool(lease.holders) if is_lock(lease) else lease.state is not State.GONE


def _row(lease: Lease, now: float) -> str:
    from tasks.leases.keeping import in_dollars
    from tasks.leases.lease import is_lock

    if is_lock(lease):
        return f"{lease.lease_id}  lock on " + ", ".join(
            f"{ref.name} in {ref.scope}" for ref in lease.resources
        )
    until = "no expiry" if lease.expires_at is None else _until(lease.expires_at - now)
    whose = str(lease.owner) if lease.owner else "no owner"
    made = ", ".join(f"{ref.kind} {ref.name}{_about(ref)}" for ref in lease.resources)
    renewed = f"renewed {now - lease.renewed_at:.0f} s ago"
    price = in_dollars(lease.price_per_hour) if any(ref.ours for ref in lease.resources) else "nothing made"
    return f"{lease.lease_id}  {lease.state}  {whose}  {renewed}, {until}  {price}  {made}"


def _about(ref: ResourceRef) -> str:
    """Returns what is to be known of a thing besides its name."""
    if not ref.ours:
        return " (adopted)"
    return f" ({ref.resizing})" if ref.resizing else ""


def _elsewhere(lease: Lease) -> str:
    """Returns the run as commands take it, with where its folder is, where that is not the usual place."""
    from tasks.config.commands import output_words, run_words

    there = lease.folder.rpartition("/")[0]
    return run_words(lease.folder) if there and output_words(there) else ""


def _until(left_s: float) -> str:
    return f"expires in {left_s:.0f} s" if left_s > 0 else f"expired {-left_s:.0f} s ago"


def _resources(refs: Sequence[Any]) -> list[str]:
    return [f"    {ref.kind} {ref.name}" for ref in refs]
