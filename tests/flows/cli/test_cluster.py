"""`slicebench cluster …` against the stand-in, as a user runs it: made, resized, shown, given back; others' stay."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.cli import cluster as command
from flows.cli.main import main
from flows.cli.said import say
from tasks.cloud.kubernetes_places import place_of_cluster
from tasks.leases.claim import claim
from tasks.leases.resource import JOBSET
from tasks.stages.cluster_standing import Office
from tests.cloud.container.hurried import ZONE
from tests.cloud.container.leasing import a_ledger, office
from tests.cloud.container.running import Gke

CREATE = ("cluster", "create", "mine", "--type", "v5litepod-16", "--zone", ZONE)


@pytest.fixture(autouse=True)
def quick(gke: Gke, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command as it is, in a hurry."""

    def hurried(project: str | None) -> Office:
        assert project in (None, "proj")
        return office(say)

    monkeypatch.setattr(command, "office", hurried)


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def test_made_shown_resized_and_given_back(gke: Gke, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CREATE, "--slices", "2", "--capacity", "spot"]) == 0
    told = capsys.readouterr()
    assert "make pool np-1" in told.err
    assert "give it back with: slicebench cluster delete mine" in told.err
    assert "np-1  ct5lp-hightpu-4t 4x4, spot  RUNNING  4 expected, 4 present, 4 healthy" in told.out
    shown = as_json(capsys, "cluster", "describe", "mine")
    assert (shown["state"], shown["lease_id"], len(shown["slices"])) == ("RUNNING", "cluster-mine_proj-e1", 2)
    [listed] = as_json(capsys, "cluster", "list")["clusters"]
    assert listed["price_per_hour"] == 19.2
    assert main(["cluster", "resize", "mine", "--slices", "1", "--dry-run"]) == 0
    planned = capsys.readouterr().out
    assert "2 slices → 1, spot" in planned
    assert "remove pool np-1 (one slice too many)" in planned
    assert main(["cluster", "resize", "mine", "--slices", "1", "--force"]) == 0
    assert gke.pools("mine") == {"cpu": "RUNNING", "np-0": "RUNNING"}
    assert main(["cluster", "delete", "mine"]) == 0
    assert "nothing is left" in capsys.readouterr().err
    assert gke.inventory() == []
    assert main(["cluster", "list"]) == 0


def test_the_cluster_of_an_environment_is_its_commands_to_change_and_delete(
    gke: Gke, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([*CREATE, "--slices", "1"]) == 0
    held = claim(a_ledger(), office().inventories, "environment-team_proj", None)
    held.describe({"cluster": "mine"}, None)
    held.stand(None)
    held.detach(None)
    gke.forget()
    resize = ["cluster", "resize", "mine", "--slices", "2"]
    create = [*CREATE, "--slices", "2"]
    for words in (resize, [*resize, "--dry-run"], create, [*create, "--dry-run"]):
        assert main(words) == 2
        told = capsys.readouterr().err
        assert "cluster mine is of environment team: its next `env up` would undo this" in told
        assert "slicebench env up FILE, with what it is to have in its file, or --set tpu_pools=N" in told
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["cluster", "delete", "mine"]) == 2
    told = capsys.readouterr().err
    assert "mine is the cluster of environment team: `slicebench env down FILE` gives back all of it" in told
    assert (
        "the cluster of environment team would be deleted alone, and there is no terminal to ask on" in told
    )
    assert gke.mutations() == []
    assert main(["cluster", "delete", "mine", "--force"]) == 0
    assert gke.inventory() == []


def test_again_without_a_capacity_it_is_paid_for_as_before(
    gke: Gke, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*CREATE, "--slices", "2", "--capacity", "spot"]) == 0
    told = {}
    same, other = ("--type", "v5litepod-16"), ("--type", "v5litepod-32")
    for words in (same, (*same, "--capacity", "on_demand"), other):
        capsys.readouterr()
        assert main([*CREATE[:3], "--zone", ZONE, "--slices", "4", *words, "--dry-run"]) == 0
        told[words] = capsys.readouterr()
    assert told[same].out == "2 slices → 4, spot\n  make pool np-2\n  make pool np-3\n"
    assert "capacity: spot, as mine has it; --capacity says another" in told[same].err
    changed = told[*same, "--capacity", "on_demand"].out
    assert changed.startswith("2 slices → 4, on_demand\n  replace pool np-0 (it is spot, not on_demand)\n")
    assert told[other].out.startswith("2 slices → 4, spot\n  replace pool np-0 (it is of 4x4")
    assert main([*CREATE, "--slices", "3"]) == 0
    assert main([*CREATE, "--slices", "0", "--force"]) == 0
    assert main([*CREATE, "--slices", "1"]) == 0  # as the lease says
    paid = [one["request"]["node_pool"]["config"].get("spot") for one in gke.requests("CreateNodePool")]
    assert paid == [True] * 4


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 2), ("", 2)])
def test_it_asks_before_it_takes_away_what_works(
    gke: Gke, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    assert main([*CREATE, "--slices", "2"]) == 0
    asked = io.StringIO(answer)
    asked.isatty = lambda: bool(answer)  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", asked)
    assert main(["cluster", "resize", "mine", "--slices", "1"]) == code
    assert len(gke.pools("mine")) == (2 if code == 0 else 3)
    told = capsys.readouterr().err
    assert "remove pool np-1" in told
    assert answer or "give --force" in told


def test_it_asks_before_it_deletes_what_workloads_run_on(
    gke: Gke, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([*CREATE]) == 0
    place = place_of_cluster("proj", gke.inventory()[0].split("/")[3], "mine")
    for name, where in (("train", place), ("other", place.replace("mine", "yours"))):
        holding = claim(a_ledger(), {}, f"workload-{name}", None)
        holding.create(JOBSET, f"{where}/team", name, lambda: "uid")
        holding.detach(time.time() + 3600)
    for answer in ("", "n\n"):
        asked = io.StringIO(answer)
        asked.isatty = lambda answer=answer: bool(answer)  # type: ignore[method-assign, misc]
        monkeypatch.setattr("sys.stdin", asked)
        capsys.readouterr()
        assert main(["cluster", "delete", "mine"]) == 2
        told = capsys.readouterr().err
        assert "team/train (lease workload-train-e1)" in told
        assert "other" not in told
        assert ("nobody agreed" if answer else "give --force") in told
    assert gke.pools("mine") == {"cpu": "RUNNING", "np-0": "RUNNING"}
    assert main(["cluster", "delete", "mine", "--force"]) == 0
    assert gke.inventory() == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("cluster", "create", "Mine", *CREATE[3:]), "cannot be the name of a cluster"),
        (("cluster", "create", "C1", *CREATE[3:]), "for example 'c1'"),
        ((*CREATE, "--capacity", "spot", "--reservation", "r"), "do not go together"),
        ((*CREATE, "--topology", "2x2x2"), "does not fit v5litepod-16"),
        ((*CREATE[:4], "h100-80gb-8", "--nodes", "2", *CREATE[5:]), "GPUDirect-TCPX"),
        ((*CREATE, "--pool-field", "config.spott=true"), "did you mean 'spot'"),
        ((*CREATE, "--cluster-field", "nope=1"), "Cluster has no field 'nope'"),
        ((*CREATE, "--cluster-field", "nope"), "write PATH=VALUE"),
        ((*CREATE[:-1], "us-east9-a"), "locations/us-east9"),
        ((*CREATE, "--version", "1.2"), "none of the channel regular"),
        ((*CREATE, "--ttl", "soon"), "--ttl: 'soon' is no length of time"),
        ((*CREATE, "--ttl", "0s"), "--ttl 0s would be over at once"),
        (("cluster", "resize", "mine"), "give the size"),
        (("cluster", "resize", "mine", "--slices", "-1"), "--slices must be at least 0, not -1"),
        (("cluster", "resize", "mine", "--slices", "3"), "keeps a cluster 'mine'"),
        (("cluster", "delete", "mine"), "made cluster 'mine'"),
        (("cluster", "describe", "mine"), "there is no cluster 'mine' in proj"),
    ],
)
def test_wrong_input_makes_nothing(
    gke: Gke, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert main(list(words)) == 2
    assert told in capsys.readouterr().err
    assert gke.mutations() == []


BARE = ("cluster", "create", "mine", "--zone", ZONE)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*BARE, "--cluster-field", "foo.bar=1"), "--cluster-field foo.bar: Cluster has no field 'foo'"),
        ((*BARE, "--cluster-field", "description=["), "--cluster-field description: '[' is no value"),
        ((*BARE, "--cluster-field", "description={a: 1}"), "'{a: 1}' does not fit there"),
        ((*BARE, "--cluster-field", "node_pools=[]"), "--cluster-field node_pools: that is said by"),
        ((*BARE, "--cluster-field", "name=other"), "that is set by slicebench itself"),
        ((*BARE, "--cpu-pool-field", "config.machine_type=x"), "that is said by cpu_pool"),
        ((*CREATE, "--pool-field", "config.machine_type=n1-standard-1"), "that is said by type"),
        ((*CREATE, "--pool-field", "config.spot=true"), "that is said by capacity"),
        ((*CREATE, "--version", "1.2"), "none of the channel regular"),
        ((*CREATE, "--max-run", "0h"), "--max-run: '0h' is no time at all"),
        ((*BARE, "--ttl", "0s"), "--ttl 0s would be over at once"),
        ((*BARE, "--service-account", "foo"), "--service-account: 'foo' is no e-mail"),
        ((*BARE, "--network", "a b"), "--network: 'a b' is no name of a network, such as my-network"),
        ((*BARE, "--cpu-disk", "200:foo"), "--cpu-disk: 'foo' is no type of disks, such as pd-balanced"),
        ((*BARE, "--cpu-machine-type", "e2-nothing-7"), "CPU machines of e2-nothing-7 are not to be had"),
        (("cluster", "create", "C1", *BARE[3:]), "for example 'c1'"),
    ],
)
def test_a_dry_run_refuses_what_would_not_be_made(
    gke: Gke, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert main([*words, "--dry-run"]) == 2
    assert told in capsys.readouterr().err
    assert gke.mutations() == []


def test_a_dry_run_refuses_what_another_made(gke: Gke, capsys: pytest.CaptureFixture[str]) -> None:
    gke.put("mine", labels={"slicebench-lease": "x-e1", "slicebench-ledger": "y", "slicebench-owner": "bob"})
    assert main([*CREATE, "--dry-run"]) == 2
    assert "was made by bob's lease x-e1" in capsys.readouterr().err


def test_a_size_is_told_in_what_the_cluster_is_counted_in(
    gke: Gke, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*BARE]) == 0
    assert main(["cluster", "resize", "mine", "--slices", "2"]) == 2
    assert "cluster mine was made without accelerators" in capsys.readouterr().err
    assert main([*CREATE]) == 0
    assert main(["cluster", "resize", "mine", "--nodes", "2"]) == 2
    assert "counted in slices, --slices 2" in capsys.readouterr().err


def test_a_stockout_is_an_infrastructure_failure_and_leaves_nothing(
    gke: Gke, capsys: pytest.CaptureFixture[str]
) -> None:
    gke.set(only_room_for=1)
    assert main([*CREATE, "--slices", "2"]) == 3
    assert "1 of 2 node pools of mine are there" in capsys.readouterr().err
    assert gke.inventory() == []
    assert main([*CREATE, "--slices", "2", "--partly"]) == 3
    assert sorted(gke.pools("mine")) == ["cpu", "np-0"]


def test_a_dry_run_says_what_would_be_made(gke: Gke, capsys: pytest.CaptureFixture[str]) -> None:
    told = as_json(capsys, *CREATE, "--slices", "2", "--dry-run")
    assert [step["do"] for step in told["steps"]] == ["make cluster", "make pool", "make pool"]
    assert gke.mutations() == []


def test_a_kubeconfig_goes_where_it_is_told_and_nowhere_else(
    gke: Gke,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("tasks.stages.cluster_kubeconfig.access_token", lambda: "secret")
    gke.put("mine")
    capsys.readouterr()
    assert main(["cluster", "kubeconfig", "mine"]) == 0
    told = yaml.safe_load(capsys.readouterr().out)
    assert told["current-context"] == "gke_proj_us-east5_mine"
    assert told["clusters"][0]["cluster"]["server"].startswith("https://203.0.113.")
    assert told["users"][0]["user"]["exec"]["command"] == "gke-gcloud-auth-plugin"
    file = tmp_path / "mine.yaml"
    assert main(["cluster", "kubeconfig", "mine", "--to", str(file), "--token"]) == 0
    assert yaml.safe_load(file.read_text())["users"][0]["user"] == {"token": "secret"}
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("precious")
    assert main(["cluster", "kubeconfig", "mine", "--to", str(file)]) == 2
    assert f"{file} is there already" in capsys.readouterr().err and file.read_text() == "precious"
    assert main(["cluster", "kubeconfig", "mine", "--to", str(file), "--force"]) == 0
    assert yaml.safe_load(file.read_text())["users"][0]["user"]["exec"]
    own = tmp_path / ".kube" / "config"
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'other'}:{file}")
    for theirs in (own, file):
        assert main(["cluster", "kubeconfig", "mine", "--to", str(theirs), "--force"]) == 2
        assert "is your own kubeconfig" in capsys.readouterr().err
    assert not own.exists()
    assert main(["cluster", "kubeconfig", "mine", "--dns"]) == 2
    assert "has no DNS endpoint" in capsys.readouterr().err


def test_calls_are_shown_when_they_are_asked_for(gke: Gke, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "list", "--verbose"]) == 0
    assert "gke: list clusters in all locations of proj: ok" in capsys.readouterr().err
