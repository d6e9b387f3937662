"""Pull the plug on `workload create` and `workload delete` at every mutating call, of the ledger and of the cluster.

Nothing is left once the reaper has run, and what others made still is; the same command given again ends well.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from flows.cli.main import main
from runtime.contract.errors import ExitCode
from tasks.leases import opening
from tasks.leases.lease import Lease, State
from tests.chaos.driver import Plug, PluggedLedger, outcome, sample, soon_enough, took_s
from tests.chaos.test_kill_gke import OTHERS, mutations, somebodys, things
from tests.cloud.kubernetes.client import JOBS, JOBSETS, Plain
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.flows.cli.submitting import STAYS, python, words_of
from tests.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

LEDGER = ("before ledger", "after ledger")
MAKES, MADE = "ledger creating of 1", "ledger live of 1"


@dataclass(frozen=True)
class Case:
    """A command, its mutating calls on the cluster, and what it writes into the ledger."""

    calls: list[str]
    ledger: list[str]


CASES = {
    "create": Case(["create jobsets", "create secrets"], [MAKES, MADE]),
    "create --wait": Case(["create jobsets", "create secrets"], [MAKES, MADE]),
    "delete": Case(["delete jobsets"], ["ledger releasing of 1", "ledger gone of 1"]),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    nodes = [{"pool": "cpu", "count": 3}]
    with KubernetesStandIn.started(tmp_path_factory.mktemp("cluster"), nodes=nodes) as started:
        yield started


def run(words: Sequence[str], plug: Plug | None = None) -> int:
    """Runs a command in a process of its own, which is killed at the plug's moment; returns how it ended."""

    def play() -> None:
        if plug is not None:
            here = opening.the_ledger()
            opening.the_ledger = lambda: PluggedLedger(here, plug)
        code = main(list(words))
        sys.stdout.flush()
        os._exit(code)

    return outcome(play)


def command(cluster: KubernetesStandIn, case: str, name: str) -> list[str]:
    if case == "delete":
        return ["workload", "delete", name, "--context", "standin", "--kubeconfig", str(cluster.kubeconfig)]
    waits = ["--wait"] if "--wait" in case else []
    program = "pass" if waits else STAYS
    return words_of(cluster, name, "--env", "A_TOKEN=x", "--ttl", "12h", *waits, *python(program))


def lease_of(name: str) -> Lease | None:
    found = [one for one in opening.the_ledger().listing().leases if f"-{name}-" in one.name]
    return max(found, key=lambda one: one.epoch, default=None)


def moments(case: Case) -> list[tuple[int, str]]:
    """Returns every moment of a command: those of the ledger by their number, then those of the cluster."""
    told = [f"{when} {what}" for what in case.ledger for when in ("before", "after")]
    told += [
        f"kill_{when} {number} {call}"
        for number, call in enumerate(case.calls)
        for when in ("before", "after")
    ]
    return list(enumerate(told))


def killed(cluster: KubernetesStandIn, case: str, number: int, told: str, name: str) -> None:
    """Runs the command until it is killed at this moment."""
    plug = Plug(None)
    if told.startswith("kill_"):
        action, _, verb, kind = told.split()
        cluster.fault(verb=verb, kind=kind, action=action)
    else:
        plug.at = number
    assert run(command(cluster, case, name), plug) == -signal.SIGKILL, told
    cluster.fault()


@pytest.mark.parametrize("afterwards", ["reap", "again"])
@pytest.mark.parametrize("case", CASES)
def test_killed_before_and_after_every_mutating_call(
    cluster: KubernetesStandIn, case: str, afterwards: str
) -> None:
    api = Plain(cluster.url)
    for other in OTHERS:
        api.post(JOBSETS, somebodys(other))
    until(lambda: len(api.names(JOBS)) == 2 * len(OTHERS))
    standing = things(cluster)
    took = []
    for number, told in sample([(-1, "not at all"), *moments(CASES[case])], "not at all"):
        name = f"w{number}" if number >= 0 else "clean"
        if case == "delete":
            assert run(command(cluster, "create", name)) == 0
        cluster.calls()
        if number < 0:
            assert run(command(cluster, case, name)) == 0
            assert [one for one in mutations(cluster) if one != "create jobs"] == CASES[case].calls
        else:
            killed(cluster, case, number, told, name)
        if afterwards == "reap":
            began = time.monotonic()
            reaped(cluster, case, number, told, name)
            took.append(took_s(began))
        else:  # takes as long as the workload, and nobody promises anything of that
            given_again(cluster, case, told, name)
        until(lambda: things(cluster) == standing)  # a Secret follows its JobSet
        lease = lease_of(name)
        assert lease is None or lease.state is State.GONE, told
    for other in OTHERS:
        api.delete(f"{JOBSETS}/{other}")
    assert not took or soon_enough(took), took


def goes_on(case: str, told: str) -> bool:
    """Whether the workload stands whole and nobody began to delete it: that is no leak."""
    if case == "delete":
        return told == "kill_before 0 delete jobsets"
    return told in ("not at all", f"after {MADE}")


def reaped(cluster: KubernetesStandIn, case: str, number: int, told: str, name: str) -> None:
    assert run(["reap"]) == 0, told
    if goes_on(case, told):
        lease = lease_of(name)
        assert lease is not None and (lease.state, lease.owner) == (State.LIVE, None), told
        assert run(command(cluster, "delete", name)) == 0


def given_again(cluster: KubernetesStandIn, case: str, told: str, name: str) -> None:
    if case == "delete":
        over = told in ("not at all", "after ledger gone of 1")
        assert run(command(cluster, case, name)) == (ExitCode.BAD_INPUT if over else 0), told
        return
    again = run(command(cluster, case, name))
    assert again == (ExitCode.BAD_INPUT if goes_on(case, told) else 0), told
    assert run(command(cluster, "delete", name)) == 0, told
