"""Each known trouble is found in a text that a program really wrote, and in no other's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.contract.errors import Place
from tasks.explain.rules import RULES, troubles
from tasks.explain.scene import Line, Scene, Seen

RECORDED = {
    "public_key_denied": "bench@127.0.0.1:2222: permission denied (publickey) for user bench; offered: /k",
    "agent_refused": "sign_and_send_pubkey: signing failed for ED25519 from agent: agent refused operation",
    "os_login": "ERROR: (gcloud.compute.ssh) Login profile size exceeds 32 KiB. Delete profile values",
    "host_key_unknown": "u@h:22: its host key is not known: /root/.ssh/known_hosts has no line for h",
    "host_key_changed": "u@h:22: it shows ssh-ed25519 SHA256:abc, host_key: says ssh-ed25519 SHA256:def",
    "iap": "Error while connecting [4003: 'failed to connect to backend'].",
    "unreachable": "u@10.0.0.9:22: no answer within 10 s; is it up, and does a firewall let port through?",
    "dpkg_lock": "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (unattended-upgr)",
    "init_hang": "benchmark 1 of 2 (Save) failed: joining exceeded 60 s on worker 1; worker 0 waited",
    "out_of_memory": "worker 1 ran out of memory in save: the kernel's out-of-memory killer ended it",
    "out_of_disk": "OSError: [Errno 28] No space left on device: '/data/x'",
    "import_error": "user.yaml:6: generator mybench.MyBench cannot be imported, ModuleNotFoundError: No module",
    "wrong_data": "restored leaf ['a'] is not what was saved: shape (2,) came back for (4,)",
    "deadline": "operation wait_until_finished exceeded 5 s on worker 1 (stopped by SIGSTOP); worker 0 waited",
    "worker_killed": "benchmark 1 of 2 (Save) failed: worker 1 was killed by SIGKILL while in wait_until_finished",
    "worker_down": "worker 0: lost the supervisor of worker 1: its connection closed",
    "slicebench_killed": "the process that owns this run (pid 10132) is gone",
    "quota": "cannot create TPU VM x: no; ask for more quota, or use another tier, type or zone",
    "stockout": "There is no more capacity in the zone us-east5-a",
    "permission": "log in (gcloud auth application-default login), enable tpu.googleapis.com, or grant roles/tpu.admin",
    "locked": "h:22 in ssh is held by lease other-e1 of root's process 7 on vm; that lease is live",
    "webhook_down": 'Internal error occurred: failed calling webhook "mjobset.kb.io": failed to call webhook: Post "https://'
    'kueue-webhook-service.kueue-system.svc:443/mutate": dial tcp 10.96.0.7:443: connect: connection refused',
    "never_fits": "QUEUED: ExceedsMaxQuota; couldn't assign flavors to pod set slice-job: insufficient quota for "
    "google.com/tpu in flavor f, previously considered requests (0) + current request (48) > maximum capacity (32)",
    "queue": "QUEUED: Misconfigured; LocalQueue multislice-queue doesn't exist",
    "wrong_hardware": "PROVISIONING: Unschedulable; 1 of 4 pods have no node: 0/42 nodes are available: 42 node(s) "
    "didn't match Pod's node affinity/selector. no new claims to deallocate",
    "waits_for_quota": "QUEUED: WaitingForQuota; couldn't assign flavors to pod set slice-job: insufficient unused "
    "quota for google.com/tpu in flavor f, 32 more needed",
    "preempted": "PREEMPTED: Preempted; Preempted to accommodate a workload (UID: 02d0c5ef) due to prioritization in "
    "the ClusterQueue",
    "bad_pod_template": "STARTING: JobCreationFailed; job creation failed with error: image: Required value",
    "image_pull": "STARTING: ImagePullBackOff; pod noimg-slice-job-0-0-z4fzm: container jax-tpu: rpc error: not found",
    "program_failed": "FAILED: ReachedMaxRestarts; pod real-slice-job-0-0-l4jvz: container jax-tpu exited with 42",
    "container": "starting: CreateContainerConfigError; pod w-slice-job-0-0-x: container worker: secret not found",
    "waits_for_capacity": "provisioning: Unschedulable; 4 of 4 pods have no node: 0/9 nodes are available: 4 "
    "Insufficient google.com/tpu, 5 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate",
    "deleted": "failed: Deleted; its JobSet was deleted before it ended",
    "time_limit": "it took longer than the 15 s of limits.workload_s: Job sb-r1-e1-slice-job-0: DeadlineExceeded: Job "
    "was active longer than specified deadline",
    "evicted": "preempted: PodsReadyTimeout; Exceeded the PodsReady timeout default/jobset-sb-r1-e1-0a1b2",
    "dns": "DNS resolution failed for sb-r1-e1-slice-job-0-0.sb-r1-e1:8476: C-ares status is not ARES_SUCCESS",
    "barrier": "Gloo AllGather failed: Read error [127.0.0.1]:24483: Connection reset by peer",
}


def line(text: str, *, said: bool = False, number: int = 1) -> Line:
    return Line(Place("run.log", number), text, said)


def scene(*lines: Line, workers: tuple[Seen, ...] = (), ended: bool = True) -> Scene:
    return Scene("r1", "r1", ended, lines, workers)


def seen(worker: int, step: str) -> Seen:
    return Seen(worker, step, step, 1.0, line(step, number=worker + 1))


@pytest.mark.parametrize("name", RECORDED)
def test_each_trouble_is_known_by_its_own_words_only(name: str) -> None:
    found = troubles(scene(line("2 workers x 2 cpu devices = 4"), line(RECORDED[name], number=7)))
    assert [trouble.name for trouble in found] == [name]
    assert str(found[0].evidence[0].place) == "run.log:7"
    assert found[0].next


ON_TPUS = {
    "public_key_denied": (
        "4 of 4 workers do not let us in after 300 s: me@10.0.0.2:22: permission denied (publickey) for user me; "
        "offered: /k: the guest did not take the key that stands in the metadata"
    ),
    "os_login": (
        "TPU VM mine in us-east5-b has OS Login on (metadata enable-oslogin): it takes no key from its metadata, which "
        "is how a run gets in"
    ),
    "unreachable": (
        "1 of 4 workers do not let us in after 300 s: me@10.0.0.2:22: no answer within 10 s; is it up, and does a "
        "firewall let port through?: a worker that is down, or a firewall that keeps tcp:22 out"
    ),
    "iap": (
        "me@10.0.0.2:22: the connection broke while it was made: EOFError; gcloud said: ERROR: "
        "(gcloud.compute.start-iap-tunnel) Error while connecting [4033: 'not authorized']."
    ),
    "worker_down": "worker 3: the supervisor is gone without a last word",
    "dpkg_lock": (
        "tpu-vm.sh failed on me@10.0.0.2:22: exit code 75: /var/lib/dpkg/lock-frontend is held by process 812: "
        "/usr/bin/python3 /usr/bin/unattended-upgrade, for longer than 300 s; its output is in ~/.slicebench"
    ),
    "init_hang": "benchmark 1 of 2 (Save) failed: joining exceeded 300 s on worker 3; workers 0, 1, 2 waited",
    "out_of_disk": "me@10.0.0.2:22: its disk is full: [Errno 28] No space left on device; free some space there",
    "locked": (
        "TPU VM mine in us-east5-b is used by lease run-0-e1 of jan's process 7 on vm, since 2026-11-28 08:00 UTC, "
        "at least until 09:00 UTC; wait for it with --wait-for-lock, or stop that run"
    ),
    "permission": "cannot list: Permission denied: log in (gcloud auth application-default login), enable "
    "tpu.googleapis.com, or grant roles/tpu.admin",
}


def test_a_role_that_is_lacking_is_known_where_it_alone_is_advised() -> None:
    [found] = troubles(
        scene(line("cannot list: Permission 'tpu.nodes.list' denied: grant roles/tpu.admin", said=True))
    )
    assert found.name == "permission"


@pytest.mark.parametrize("name", ON_TPUS)
def test_what_goes_wrong_on_tpu_vms_is_known_by_the_words_that_it_is_told_in(name: str) -> None:
    [found] = troubles(scene(line(ON_TPUS[name], said=True)))
    assert (found.name, bool(found.next)) == (name, True)


def test_a_pod_that_was_killed_for_want_of_memory_is_no_lost_supervisor() -> None:
    killed = "pod sb-r1-e1-slice-job-0-1-x: container worker was killed for want of memory (OOMKilled) (exit code 137)"
    found = troubles(scene(line(RECORDED["worker_down"], said=True), line(killed, said=True)))
    assert [trouble.name for trouble in found] == ["out_of_memory", "worker_down"]


def test_a_key_that_is_ignored_where_os_login_may_be_on_is_told_both_ways() -> None:
    waited = f"{ON_TPUS['public_key_denied']}, as it does where the whole project has OS Login on"
    found = troubles(scene(line(waited, said=True)))
    assert {trouble.name for trouble in found} == {"public_key_denied", "os_login"}


def test_every_text_rule_has_a_recorded_text() -> None:
    # A leaked lease is known from the ledger, torn results by looking, what Kueue never queued from the outcome.
    assert len(RECORDED) == len(RULES) - 3


def test_what_kueue_never_queued_is_known_by_the_kind_of_its_end() -> None:
    cause = line("JobSet sb-r1-e1 waited 86401 s for its turn", said=True)
    assert troubles(scene(cause)) == []
    [found] = troubles(replace(scene(line("2 workers"), cause), trouble="unqueued"))
    assert (found.name, found.evidence) == ("no_workload", [cause])


def test_what_slicebench_said_comes_before_logs_and_echoes_come_last() -> None:
    found = troubles(
        scene(
            line(RECORDED["barrier"], said=True),
            line(RECORDED["out_of_disk"]),
            line(RECORDED["worker_killed"], said=True),
        )
    )
    assert [trouble.name for trouble in found] == ["worker_killed", "out_of_disk", "barrier"]


def test_who_is_missing_in_jax_distributed_is_named() -> None:
    waiting = scene(workers=(seen(0, "joining"), seen(1, "started"), seen(2, "joining")), ended=False)
    (found,) = troubles(waiting)
    assert found.what == "jax.distributed is not complete: worker 1 is missing, workers 0, 2 waiting"
    assert [str(one.place) for one in found.evidence] == ["run.log:2", "run.log:1", "run.log:3"]


def test_all_of_them_joining_is_no_trouble_yet() -> None:
    assert troubles(scene(workers=(seen(0, "joining"), seen(1, "joining")), ended=False)) == []


def test_a_dead_owner_of_an_unfinished_run_was_killed() -> None:
    dead = Scene(
        "r1", "r1", False, lease_id="r1-e1", lease_place="/l/r1-e1.json", owner="u's 7", owner_alive=False
    )
    (found,) = troubles(dead)
    assert found.name == "slicebench_killed" and "run --resume r1 " in found.next[0]


@pytest.mark.parametrize("how", ["was killed during RUN", "fell silent after TEARDOWN, in compare or report"])
def test_a_run_of_which_somebody_else_told_that_it_was_killed(how: str) -> None:
    (found,) = troubles(scene(line(f"slicebench's process 4711 on laptop {how}", said=True)))
    assert found.name == "slicebench_killed"


def test_a_leaked_lease_is_told() -> None:
    (found,) = troubles(Scene("r1", "r1", True, lease_id="r1-e1", lease_state="leaked", lease_note="stuck"))
    assert found.name == "lease_leaked" and found.next[-1] == "slicebench reap"


def test_ordinary_lines_are_no_trouble() -> None:
    assert troubles(scene(line("attempt 1 succeeded"), line("1 resources given back, nothing is left"))) == []


@pytest.mark.parametrize("name", ["container", "image_pull"])
def test_what_pods_waited_for_before_they_ran_is_no_trouble_any_more(name: str) -> None:
    waited, runs = line(RECORDED[name]), "running: Started; 2 of 2 pods run"
    for told in (runs, f"2026-11-29T20:49:23.622+00:00 {runs}"):
        assert troubles(scene(waited, line(told, number=2))) == []
    assert [one.name for one in troubles(scene(line(runs), waited))] == [name], "in an attempt after that"
    ended = Line(Place("outcome.json", 1), RECORDED[name], said=True)
    assert [one.name for one in troubles(scene(ended, line(runs)))] == [name], "what it ended by"
