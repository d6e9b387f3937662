"""`slicebench leases` and `slicebench reap`: what is held by whom, and getting rid of what should not be."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from flows.cli.leases_said import lines_of
from flows.cli.said import Json, print_json, say
from flows.cli.verbose import Verbose, show_calls
from runtime.contract.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from tasks.leases.finding import Finding, Judgement
    from tasks.leases.lease import Lease
    from tasks.leases.ledger import Ledger
    from tasks.leases.presently import Present


_ELSEWHERE = "  an environment has a record of its own: `slicebench env plan FILE` says what of it is there"


def leases(
    *,
    all: Annotated[
        bool, Parameter(negative="", show_default=False, help="Show leases that are gone as well")
    ] = False,
    json: Json = False,
) -> int:
    """Show what slicebench holds, who holds it, whether it is there, and what would become of it now.

    Clusters are asked about what goes on by itself, for 3 s at most; where none answers it is told as unknown.
    """
    from tasks.leases.judging import judge_from_here
    from tasks.leases.lease import State
    from tasks.leases.opening import the_ledger

    ledger = the_ledger()
    listing = ledger.listing()
    now = time.time()
    shown = [lease for lease in listing.leases if all or _counts(lease)]
    leaked = any(lease.state is State.LEAKED for lease in shown)
    present = _present(ledger, shown)
    verdicts = {
        one.lease_id: _judged(one, judge_from_here(one, now), present.get(one.lease_id)) for one in shown
    }
    if json:
        rows = [_object(one, verdicts[one.lease_id], present.get(one.lease_id)) for one in shown]
        unreadable = [str(error) for error in listing.unreadable]
        print_json({"ledger": ledger.uri, "leases": rows, "unreadable": unreadable})
    else:
        told_before: set[str] = set()
        for one in shown:
            print(
                *lines_of(one, verdicts[one.lease_id], present.get(one.lease_id), now, told_before), sep="\n"
            )
        for error in listing.unreadable:
            say(str(error))
        if not shown and not listing.unreadable:
            say(f"nothing is held ({_which(ledger)})", _ELSEWHERE)
    return ExitCode.LEAKED if leaked else ExitCode.INFRASTRUCTURE if listing.unreadable else ExitCode.DONE


def reap(
    *,
    dry_run: Annotated[
        bool, Parameter(negative="", show_default=False, help="Only say what would be deleted")
    ] = False,
    lease: Annotated[
        str | None, Parameter(help="Only this lease, now, even if it is kept: its name or id")
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
            print(f"{finding.lease_id}: {finding.did}: {finding.why}")
            for ref in finding.resources:
                print(f"    {ref.kind} {ref.name}")
        if lease is None and not any(finding.did != "kept" for finding in findings):
            say(f"nothing to reap ({_which(ledger)})")
    return code


def _which(ledger: Ledger) -> str:
    """Returns which ledger it is; of one that does not exist yet it is said: its place may be a wrong one."""
    return ledger.uri if ledger.exists() else f"{ledger.uri}, where no ledger is yet"


def _counts(lease: Lease) -> bool:
    """Says whether a lease holds anything: one that is gone does not, nor does a lock that is free."""
    from tasks.leases.lease import State, is_lock

    return bool(lease.holders) if is_lock(lease) else lease.state is not State.GONE


def _present(ledger: Ledger, shown: Sequence[Lease]) -> Mapping[str, Present]:
    """Returns what is there of leases that live by nobody's process, as far as their clusters answer."""
    from tasks.leases.resource import CLUSTER, JOBSET

    kinds = (JOBSET, CLUSTER)
    if not any(one.owner is None and ref.kind in kinds for one in shown for ref in one.resources):
        return {}
    from tasks.leases.presently import presently

    return presently(ledger, shown)


def _object(lease: Lease, verdict: Judgement, there: Present | None) -> dict[str, Any]:
    """Returns a lease for programs."""
    told = {"state": there.state, "told": there.told} if there else None
    return {**asdict(lease), "presently": told, "reaper": {"act": verdict.act, "why": verdict.why}}


def _judged(lease: Lease, verdict: Judgement, there: Present | None) -> Judgement:
    """Returns what the reaper would do about a lease, once it has asked its cluster as well."""
    from tasks.leases.lease import is_submitted
    from tasks.leases.submitted import ENDED, TAKEN

    if there is None or not is_submitted(lease):
        return verdict
    if there.state == "ended" and (there.stays_until or 0.0) > time.time():
        return replace(verdict, act="keep", why=ENDED)
    return replace(verdict, act="release", why=TAKEN) if there.state == "gone" else verdict
