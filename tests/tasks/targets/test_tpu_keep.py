"""TPUs that outlive a run or were there before: kept with a price and used again; locked, whatever the ledger."""
# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

import json
import re
import shlex
import time
from dataclasses import replace
from pathlib import Path

import pytest

from flows.cli import tpu
from flows.cli.main import main
from runtime.contract.errors import BadInput
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_model import NodeRequest
from tasks.config.home import scratch_folder
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.holding import Taken
from tasks.leases.keeping import claim_kept
from tasks.leases.lease import State
from tasks.leases.locks import Locked
from tasks.leases.reaper import reap
from tasks.leases.tpu_entries import REFRESH_S, TERM_S, read, refresh
from tasks.stages.provision import provision, shape_of
from tasks.stages.teardown import teardown
from tasks.stages.tpus import Office, delete, lease_name
from tests.cloud.tpu.leasing import QUICK, ZONE, a_ledger, make_node
from tests.cloud.tpu.running import Cloud
from tests.tasks.targets.local_runs import alive_under
from tests.tasks.targets.tpu_runs import Bench, bench, hold, inventories_of, machines, play


def test_kept_with_its_price_used_again_and_given_back(bench: Bench) -> None:
    run, holding = bench.run(bench.config(), keep="always", keep_for_s=1800.0), hold()
    assert play(run, holding) == [(1, "succeeded")]
    teardown(run, holding)
    told = "\n".join(bench.said)
    assert re.search(r"kept: tpu_queued_resource sb-run-1-e1 in proj/us-east5-b", told), told
    assert "$5.40 an hour" in told
    assert "use it again with --lease run-1; delete it now with: slicebench reap --lease run-1" in told
    ledger = a_ledger()
    [found] = reap(ledger, inventories_of(ledger))
    assert found.did == "kept"
    key = (scratch_folder() / "run-1" / "id_ed25519").read_bytes()

    again = bench.run(bench.config(), run_id="run-2", lease="run-1")
    assert again.target.plan(again.spec).resources[0].name == "sb-run-1-e1"
    holding = claim_kept(ledger, inventories_of(ledger), "run-1", "run-2", shape_of(again))
    assert play(again, holding) == [(1, "succeeded")]
    assert (scratch_folder() / "run-1" / "id_ed25519").read_bytes() == key
    assert [one["method"] for one in bench.cloud.mutations() if one["outcome"] == "OK"] == [
        "CreateQueuedResource"
    ]
    teardown(again, holding)
    assert (holding.lease.state, bench.cloud.inventory()) == (State.GONE, [])


def test_what_a_run_kept_is_opened_by_the_command_that_it_said(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run, holding = bench.run(bench.config(), keep="always", keep_for_s=1800.0), hold()
    provision(run, holding)
    teardown(run, holding)
    [said] = re.findall("get into it with: (.*)", "\n".join(bench.said))
    command = shlex.split(said)
    assert command[:4] == ["slicebench", "tpu", "ssh", "sb-run-1-e1"]
    ledger = a_ledger()
    office = Office(
        CloudTpu("proj", timing=QUICK),
        ledger,
        inventories_of(ledger),
        scratch_folder(),
        bench.said.append,
        0.05,
    )
    monkeypatch.setattr(tpu, "office", lambda project: office)
    assert main([*command[1:], "--worker", "1", "--", "echo in as $(whoami)"]) == 0
    assert f"in as {bench.hosts[0].user}" in capfd.readouterr().out
    assert main(["tpu", "exec", *command[3:], "--", "true"]) == 0
    assert claim(ledger, inventories_of(ledger), "run-1", None).release("over").lease.state is State.GONE


def test_what_is_kept_goes_when_its_time_is_over(bench: Bench) -> None:
    run, holding = bench.run(bench.config(slices=1), "fail", keep="on_failure", keep_for_s=1800.0), hold()
    assert play(run, holding) == [(1, "failed")]
    teardown(run, holding, failed=True)
    assert [name.rsplit("/", 1)[1] for name in bench.cloud.inventory()] == ["sb-run-1-e1"]
    ledger = a_ledger()
    [found] = reap(ledger, inventories_of(ledger), now=lambda: time.time() + 1900)
    assert (found.did, bench.cloud.inventory()) == ("released", [])


def test_other_hardware_than_what_is_kept_is_refused(bench: Bench) -> None:
    run, holding = bench.run(bench.config(slices=1), keep="always", keep_for_s=1800.0), hold()
    provision(run, holding)
    teardown(run, holding)
    other = bench.run(bench.config(slices=2), run_id="run-2", lease="run-1")
    ledger = a_ledger()
    with pytest.raises(BadInput, match="slices is 1 there, and the run wants 2"):
        claim_kept(ledger, inventories_of(ledger), "run-1", "run-2", shape_of(other))
    assert claim(ledger, inventories_of(ledger), "run-1", None).release("over").lease.state is State.GONE


@pytest.fixture
def mine(bench: Bench) -> CloudTpu:
    """A TPU that somebody made without slicebench."""
    tpu = CloudTpu("proj", timing=QUICK)
    tpu.create_node(ZONE, "mine", NodeRequest("v6e-1", "v2-alpha-tpuv6e", {}))
    return tpu


def test_a_second_run_of_the_same_ledger_is_told_who_has_it(
    bench: Bench, mine: CloudTpu, tmp_path: Path
) -> None:
    config = bench.config(existing="mine", slices=1)
    first = hold()
    provision(bench.run(config, output=str(tmp_path)), first)
    second = hold("run-2")
    with pytest.raises(Locked, match="mine in tpu proj is held by lease run-1-e1 of "):
        provision(bench.run(config, run_id="run-2", output=str(tmp_path)), second)
    assert first.release("over").lease.state is State.GONE
    provision(bench.run(config, run_id="run-2", output=str(tmp_path)), second)
    assert second.release("over").lease.state is State.GONE
    assert dict(mine.node(ZONE, "mine").metadata) == {}


def test_a_run_of_another_ledger_sees_the_lock_at_the_tpu(
    bench: Bench, mine: CloudTpu, tmp_path: Path
) -> None:
    config = bench.config(existing="mine", slices=1)
    first = hold()
    provision(bench.run(config, output=str(tmp_path)), first)
    second = hold("run-2", DirectoryLedger(tmp_path / "elsewhere"))
    run = bench.run(config, run_id="run-2", output=str(tmp_path))
    with pytest.raises(
        Locked, match=r"TPU VM mine in us-east5-b is used by lease run-1-e1 of .*wait-for-lock"
    ):
        provision(run, second)
    entry = read(mine.node(ZONE, "mine").metadata)
    assert entry is not None
    assert entry.lease == "run-1-e1"
    # One that nobody wrote again for its term is dead: its key goes with it.
    stale = json.dumps({**json.loads(mine.node(ZONE, "mine").metadata["slicebench-lock"]), "until": 1.0})
    mine.set_metadata(ZONE, "mine", lambda there: {**there, "slicebench-lock": stale})
    provision(run, second)
    there = mine.node(ZONE, "mine").metadata
    assert entry.key not in there["ssh-keys"]
    assert second.release("over").lease.state is State.GONE
    assert first.release("over").lease.state is State.GONE
    assert dict(mine.node(ZONE, "mine").metadata) == {}


def test_one_that_waits_goes_on_when_the_tpu_is_free(bench: Bench, mine: CloudTpu, tmp_path: Path) -> None:
    config = bench.config(existing="mine", slices=1)
    first = hold()
    provision(bench.run(config, output=str(tmp_path)), first)

    def say(line: str) -> None:
        if "is used by lease run-1-e1" in line:
            assert first.release("over").lease.state is State.GONE
        bench.said.append(line)

    second = hold("run-2", DirectoryLedger(tmp_path / "elsewhere"))
    run = bench.run(config, run_id="run-2", output=str(tmp_path), wait_for_lock_s=60.0)
    run.target._say = say  # type: ignore[attr-defined]
    provision(run, second)
    assert any("waiting for at most" in line for line in bench.said), bench.said
    assert second.release("over").lease.state is State.GONE


def test_a_run_whose_tpu_another_took_ends_and_measures_nothing_more(
    bench: Bench, mine: CloudTpu, tmp_path: Path
) -> None:
    run, holding = bench.run(bench.config(existing="mine", slices=1), "hold", output=str(tmp_path)), hold()
    other = {
        "lease": "run-2-e1",
        "ledger": "elsewhere",
        "owner": "jan",
        "key": "k",
        "since": 1.0,
        "until": 9e9,
    }

    def say(line: str) -> None:
        bench.said.append(line)
        if "worker 0 of" in line:
            foreign = {"slicebench-lock": json.dumps(other)}
            mine.set_metadata(ZONE, "mine", lambda there: {**there, **foreign})

    with pytest.raises(Locked, match="mine in us-east5-b is used by lease run-2-e1 of jan"):
        play(replace(run, say=say), holding)
    [attempt] = json.loads(run.folder.read("attempts.json") or b"")
    assert (attempt["end"], "was taken from this run" in attempt["cause"]) == ("preempted", True)
    assert holding.release("over").lease.state is State.GONE
    assert alive_under("run-1-e1") == []
    entry = read(mine.node(ZONE, "mine").metadata)
    assert entry is not None
    assert entry.lease == "run-2-e1"


def test_an_entry_is_written_again_in_time(bench: Bench, mine: CloudTpu, tmp_path: Path) -> None:
    holding = hold()
    provision(bench.run(bench.config(existing="mine", slices=1), output=str(tmp_path)), holding)
    before = read(mine.node(ZONE, "mine").metadata)
    public = (scratch_folder() / "run-1" / "id_ed25519.pub").read_text().strip()
    assert refresh(mine, holding, bench.hosts[0].user, public) == ""
    assert read(mine.node(ZONE, "mine").metadata) == before, "it was written a moment ago"
    assert refresh(mine, holding, bench.hosts[0].user, public, within_s=0.0) == ""
    after = read(mine.node(ZONE, "mine").metadata)
    assert before is not None
    assert after is not None
    assert before.until < after.until
    assert (after.since, REFRESH_S < TERM_S) == (before.since, True)
    assert holding.release("over").lease.state is State.GONE


def test_a_tpu_that_slicebench_made_stays_while_a_run_uses_it(bench: Bench, tmp_path: Path) -> None:
    ledger = a_ledger()
    everything = inventories_of(ledger)
    office = Office(CloudTpu("proj", timing=QUICK), ledger, everything, scratch_folder(), poll_s=0.02)
    maker = claim(ledger, everything, lease_name("mine"), None)
    make_node(maker, "mine", "v6e-1")
    maker.live()
    maker.detach(time.time() + 600.0)
    holding = hold()
    provision(bench.run(bench.config(existing="mine", slices=1), output=str(tmp_path)), holding)
    found = reap(
        ledger, everything, now=lambda: time.time() + 601.0, confirm_s=0.0, sleep=lambda s: holding.renew()
    )
    assert {one.lease_id: one.why for one in found}["tpu-mine-e1"] == "shared by run-1-e1"
    with pytest.raises(Taken, match="mine is used by run-1-e1: wait for it or stop it"):
        delete(office, "mine")
    assert len(bench.cloud.inventory()) == 1
    assert holding.release("over").lease.state is State.GONE
    shared = ledger.read("tpu-mine-e1")
    assert shared is not None
    assert (shared.holders, shared.state, len(bench.cloud.inventory())) == ((), State.LIVE, 1)
    assert [one.name for one in delete(office, "mine")] == ["mine"]
    assert bench.cloud.inventory() == []
