"""The lease of a workload that somebody submits: from before its JobSet is made until its cluster has nothing of it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from flows.cli.main import main
from runtime.contract.errors import ExitCode
from tasks.cloud.labels import read_labels
from tasks.leases import giving_up
from tasks.leases.finding import Finding
from tasks.leases.giving_up import GoingAlready, give_up
from tasks.leases.jobsets import JobSetInventory
from tasks.leases.lease import Lease, State
from tasks.leases.opening import the_ledger
from tasks.leases.submitting import begin
from tasks.stages import workload_create
from tests.cloud.kubernetes.client import JOBS, JOBSETS, PODS, Plain
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.flows.cli.submitting import SECRETS, STAYS, emptied, python, three_hosts, words_of


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    with three_hosts(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def api(cluster: KubernetesStandIn) -> Iterator[Plain]:
    with emptied(cluster) as plain:
        yield plain


@pytest.fixture
def call(cluster: KubernetesStandIn, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command; returns its exit code, what it printed and what it said."""

    def run(command: str, *more: str) -> tuple[int, str, str]:
        capsys.readouterr()
        where = ["--context", "standin", "--kubeconfig", str(cluster.kubeconfig)]
        match command.split():
            case ["create", name]:
                code = main(words_of(cluster, name, *more))
            case ["delete", name]:
                code = main(["workload", "delete", name, *where, *more])
            case words:
                code = main([*words, *more])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def lease_of(workload: str) -> Lease:
    """Returns the latest lease of a workload."""
    found = [one for one in the_ledger().listing().leases if workload in one.name]
    return max(found, key=lambda one: one.epoch)


def set_expiry(workload: str, at: float | None) -> None:
    the_ledger().write(replace(lease_of(workload), expires_at=at))


def test_it_lasts_until_the_deadline_and_names_all_that_was_made(api: Plain, call: Any) -> None:
    limits = ["--deadline", "2h", "--grace", "7s", "--env", "A_TOKEN=x"]
    code, out, _ = call("create leased", "--json", *limits, *python(STAYS))
    told, lease = json.loads(out), lease_of("leased")
    assert (code, told["lease"], told["expires_at"]) == (0, lease.lease_id, lease.expires_at)
    assert (lease.state, lease.owner, [ref.uid for ref in lease.resources]) == (
        State.LIVE,
        None,
        [told["uid"]],
    )
    assert lease.expires_at == pytest.approx(time.time() + 2 * 3600 + 7 + 300, abs=120)
    for path in (f"{JOBSETS}/leased", f"{SECRETS}/leased-env"):
        labelled = read_labels(api.get(path)["metadata"]["labels"])
        assert labelled is not None and labelled.lease_id == lease.lease_id
    code, out, _ = call("leases")
    assert code == 0 and "goes on by itself, not expired yet" in out and "jobset leased" in out
    assert call("reap")[0] == 0 and api.names(JOBSETS) == ["leased"]
    assert call("delete leased")[0] == 0
    assert lease_of("leased").state is State.GONE


@pytest.mark.parametrize(("said", "deadline_s"), [([], 86400), (["--deadline", "none"], None)])
def test_who_says_no_deadline_gets_one_unless_he_wants_none(
    api: Plain, call: Any, said: list[str], deadline_s: int | None
) -> None:
    code, _, told = call("create limits", *said, *python("pass"))
    assert code == 0 and ("nothing else ends it" if deadline_s is None else "for 1 d at most") in told
    job = api.get(f"{JOBSETS}/limits")["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert job.get("activeDeadlineSeconds") == deadline_s
    assert (lease_of("limits").expires_at is None) == (deadline_s is None)


def test_of_two_calls_for_one_name_at_once_the_second_is_bad_input(
    api: Plain, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clear = workload_create.clear

    def another_was_faster(kube: Any, ledger: Any, wanted: Any, say: Any) -> None:
        clear(kube, ledger, wanted, say)
        begin(ledger, wanted)

    monkeypatch.setattr(workload_create, "clear", another_was_faster)
    code, _, told = call("create twice", *python("pass"))
    assert code == 2 and "twice is being submitted by another call, choose another name" in told
    assert not api.names(JOBSETS) and lease_of("twice").state is State.CREATING, (
        "what the other has is left alone"
    )
    the_ledger().remove(lease_of("twice"))


def test_what_outlived_its_deadline_is_reaped(api: Plain, call: Any) -> None:
    assert call("create late", *python(STAYS))[0] == 0
    set_expiry("late", time.time() - 1)
    code, out, _ = call("reap")
    assert code == 0 and "its turn and its deadline are over" in out
    assert not api.names(JOBSETS) and lease_of("late").state is State.GONE


def test_what_has_ended_stays_to_be_read_and_is_closed_once_its_cluster_took_it_away(
    api: Plain, call: Any
) -> None:
    assert call("create read", "--wait", *python("pass"))[0] == 0
    set_expiry("read", time.time() - 1)
    assert "it has ended, and stays to be read" in call("reap")[1]
    assert api.names(JOBSETS) == ["read"]
    assert call("create taken", "--ttl", "0s", *python("pass"))[0] == 0
    api.eventually(JOBSETS, lambda told: [one["metadata"]["name"] for one in told["items"]] == ["read"])
    api.eventually(PODS, lambda told: len(told["items"]) == 1)
    assert "it has ended, and its cluster took it away" in call("reap")[1]
    assert (lease_of("taken").state, lease_of("read").state) == (State.GONE, State.LIVE)


def test_without_an_answer_of_its_cluster_nothing_is_closed(
    api: Plain, call: Any, cluster: KubernetesStandIn
) -> None:
    assert call("create silent", *python(STAYS))[0] == 0
    cluster.fault(verb="list", kind="jobsets", action="error", code=403, times=9)
    code, out, _ = call("reap")
    assert code == 3 and "nobody knows what jobset there are" in out
    cluster.fault()
    assert lease_of("silent").state is State.LIVE and api.names(JOBSETS) == ["silent"]


def test_what_cannot_be_written_down_is_not_made(
    api: Plain, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEBENCH_LEDGER", "/proc/ledger")
    code, _, said = call("create unwritten", *python("pass"))
    assert code == 3 and "cannot write the lease ledger" in said and not api.names(JOBSETS)


def test_what_was_refused_leaves_no_lease(api: Plain, call: Any, cluster: KubernetesStandIn) -> None:
    cluster.fault(verb="create", kind="jobsets", action="error", code=422, times=9)
    assert call("create refused", *python("pass"))[0] == 2
    assert not the_ledger().listing().leases


def test_what_was_refused_after_a_reply_was_lost_is_looked_for_before_its_lease_goes(
    api: Plain, call: Any, cluster: KubernetesStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobSetInventory, "settle_s", 0.1)  # the stand-in is never late
    lost = {"verb": "create", "kind": "jobsets", "action": "lose_reply"}
    unknown = {"verb": "get", "kind": "jobsets", "action": "error", "code": 404}
    cluster.fault(lost, unknown)  # as while the server learns its kinds anew
    assert call("create doubtful", *python(STAYS))[0] == 2
    assert lease_of("doubtful").state is State.GONE and not api.names(JOBSETS) + api.names(PODS)


def test_what_was_made_without_its_secret_is_given_back_at_once(
    api: Plain, call: Any, cluster: KubernetesStandIn
) -> None:
    cluster.fault(verb="create", kind="secrets", action="error", code=403, times=9)
    assert call("create half", "--env", "MY_TOKEN=x", *python("pass"))[0] == 3
    assert lease_of("half").state is State.GONE and not api.names(JOBSETS) + api.names(PODS)


def test_killed_between_jobset_and_secret_the_same_call_again_ends_well(
    api: Plain, call: Any, cluster: KubernetesStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobSetInventory, "settle_s", 0.2)  # the stand-in is never late
    cluster.fault(verb="create", kind="secrets", action="kill_before")
    words = words_of(cluster, "killed", "--env", "MY_TOKEN=x", *python("pass"))
    if (pid := os.fork()) == 0:
        os._exit(main(words))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert api.names(JOBSETS) == ["killed"] and not api.names(SECRETS)
    code, out, _ = call("leases")
    assert code == 0 and "reapable" in out and "jobset killed" in out
    code, _, said = call("create killed", "--env", "MY_TOKEN=x", *python("pass"))
    assert code == 0 and "what it made is given back first" in said
    assert api.names(SECRETS) == ["killed-env"] and lease_of("killed").epoch == 2


def test_deleting_what_is_gone_already_closes_its_lease_and_deleting_it_again_finds_nothing(
    api: Plain, call: Any
) -> None:
    assert call("create twice", *python(STAYS))[0] == 0
    assert call("delete twice", "--wait", "0s")[0] == 0
    api.eventually(JOBSETS, lambda told: not told["items"])
    assert lease_of("twice").state is State.LIVE
    assert call("delete twice", "--wait", "0s")[0] == 0
    assert lease_of("twice").state is State.GONE
    code, _, said = call("delete twice")
    assert code == 2 and "there is no workload twice" in said
    code, _, said = call("delete twice", "--missing-ok")
    assert (code, said.endswith("there was nothing to delete\n")) == (0, True)


def test_what_keeps_pods_while_kueue_is_down_is_told(
    api: Plain, cluster: KubernetesStandIn, call: Any
) -> None:
    assert call("create held", *python(STAYS))[0] == 0
    api.eventually(PODS, lambda told: [one["status"]["phase"] for one in told["items"]] == ["Running"])
    cluster.stop("kueue")
    try:
        code, _, said = call("delete held", "--wait", "3s")
        assert (code, "Kueue runs" in said) == (ExitCode.INFRASTRUCTURE, True), said
    finally:
        cluster.stop()
    assert call("delete held")[0] == 0


def test_what_others_hold_by_a_finalizer_is_waited_for_no_longer_than_was_said(
    api: Plain, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.cli.workload._LEAST_S", 0.2)
    assert call("create kept", *python(STAYS))[0] == 0
    api.patch(f"{JOBSETS}/kept", {"metadata": {"finalizers": ["example.com/keep"]}})
    assert call("delete kept", "--wait", "0s")[0] == 0
    api.delete(
        f"{JOBS}/kept-slice-job-0", propagationPolicy="Background"
    )  # as Kueue sees to, where there is a queue
    api.eventually(PODS, lambda told: not told["items"])
    began = time.monotonic()
    code, _, said = call("delete kept", "--wait", "1s")
    api.patch(f"{JOBSETS}/kept", {"metadata": {"finalizers": None}})
    assert code == ExitCode.LEAKED and "jobset kept is still there" in said, said
    assert "JobSet kept is held by the finalizer example.com/keep" in said
    assert time.monotonic() - began < 60.0  # a JobSet may take five minutes where nobody says anything
    assert lease_of("kept").state is State.LEAKED
    assert call("delete kept")[0] == 0
    assert lease_of("kept").state is State.GONE


def test_what_another_call_is_just_deleting_is_waited_for(
    api: Plain, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = iter([GoingAlready("it is just being given back")] * 2)

    def asked(*of: Any, **more: Any) -> Finding:
        if (error := next(going, None)) is not None:
            raise error
        return give_up(*of, **more)

    assert call("create both", *python(STAYS))[0] == 0
    monkeypatch.setattr(giving_up, "give_up", asked)
    assert call("delete both")[0] == 0
    assert lease_of("both").state is State.GONE
