"""Known troubles: each rule looks at what was recorded of a run and names one, with its evidence and the next command.

A rule says only what its evidence says. Text rules look for words that programs really write; what they cannot
know they leave to the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from runtime.contract.errors import Place
from tasks.targets.scene import Line, Scene, Seen, Trouble

Rule = Callable[[Scene], Trouble | None]

_MOST_EVIDENCE = 3


def troubles(scene: Scene) -> list[Trouble]:
    """Returns all troubles that the scene shows, the likely root first: what slicebench said comes before what
    only stands in a log, and what follows from others comes last.
    """
    found = [trouble for rule in RULES if (trouble := rule(scene))]
    return sorted(found, key=lambda one: (one.follows, not any(line.said for line in one.evidence)))


def public_key_denied(scene: Scene) -> Trouble | None:
    """The host takes none of the keys that were offered."""
    return _told(
        scene,
        "public_key_denied",
        r"permission denied \(publickey|it takes no keys, only|it hung up after \d+ keys|there is no key to offer",
        "a host does not let us in: it takes none of the keys that were offered",
        ("slicebench doctor --target TARGET", "ssh -v -o IdentitiesOnly=yes -i KEY USER@HOST true"),
        unknown="whether the host lacks the key or ignores it (OS Login does): its sshd's log says which",
    )


def agent_refused(scene: Scene) -> Trouble | None:
    """The SSH agent has no key, does not answer, or does not sign."""
    return _told(
        scene,
        "agent_refused",
        r"the SSH agent (has no key|does not answer)|agent refused operation|sign_and_send_pubkey: signing failed"
        r"|Could not open a connection to your authentication agent",
        "the SSH agent does not give a key",
        ("ssh-add -l", "ssh-add KEY"),
    )


def os_login(scene: Scene) -> Trouble | None:
    """OS Login decides who gets in; it ignores keys in metadata."""
    return _told(
        scene,
        "os_login",
        r"\bos-?login\b|\bOS Login\b|Login profile size exceeds",
        "OS Login decides who may log in there, and then keys in the metadata count for nothing",
        (
            "gcloud compute project-info describe --format='value(commonInstanceMetadata.items)'",
            "gcloud compute os-login ssh-keys list",
        ),
        unknown="whether your account has roles/compute.osLogin (or osAdminLogin) there",
    )


def host_key_unknown(scene: Scene) -> Trouble | None:
    """Nobody has told us the host's key."""
    return _told(
        scene,
        "host_key_unknown",
        r"its host key is not known|No \S+ host key is known for|authenticity of host .{1,200} can't be established",
        "a host's key is not known here, so nobody can say whether it is the right host",
        (
            "ssh-keyscan -p PORT HOST   # compare with: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub there",
        ),
    )


def host_key_changed(scene: Scene) -> Trouble | None:
    """The host shows another key than we know."""
    return _told(
        scene,
        "host_key_changed",
        r"it shows (ssh|ecdsa|sk|rsa)-\S+ .{1,200} says|REMOTE HOST IDENTIFICATION HAS CHANGED|its host key is revoked",
        "a host shows another key than the one that is known: it was reinstalled, or it is another one",
        ("ssh-keygen -R HOST   # only after its new fingerprint was checked on the host itself",),
    )


def iap_refused(scene: Scene) -> Trouble | None:
    """The tunnel of Identity-Aware Proxy does not come about."""
    return _told(
        scene,
        "iap",
        r"\[40\d\d: '[^']+'\]|start-iap-tunnel|iap\.tunnelInstances",
        "the tunnel through Identity-Aware Proxy does not come about",
        (
            "gcloud compute firewall-rules list --filter='sourceRanges:35.235.240.0/20'",
            "gcloud projects add-iam-policy-binding PROJECT --member=user:YOU --role=roles/iap.tunnelResourceAccessor",
        ),
        unknown="'not authorized' means the role is missing, 'failed to connect to backend' the firewall or sshd",
    )


def unreachable(scene: Scene) -> Trouble | None:
    """Nobody answers at the address: firewall, wrong address or port, host down."""
    return _told(
        scene,
        "unreachable",
        r"no answer within [\d.]+ s; is it up|: nothing listens there|its name cannot be resolved|No route to host"
        r"|port \d+: (Connection timed out|Connection refused)|does not greet as an SSH server does",
        "a host does not answer",
        (
            "slicebench doctor --target TARGET",
            "nc -vz -w 5 HOST PORT",
            "gcloud compute firewall-rules list --filter='allowed[].ports:22'   # on Google Cloud",
        ),
        unknown="whether it is down or a firewall is in between: silence looks the same from here",
    )


def package_lock(scene: Scene) -> Trouble | None:
    """Another process holds apt's or dpkg's lock, as unattended-upgrades does on a fresh VM."""
    return _told(
        scene,
        "dpkg_lock",
        r"Could not get lock \S*(dpkg|apt)|Waiting for cache lock|Unable to (acquire|lock) .{0,60}(dpkg|apt)"
        r"|dpkg was interrupted",
        "another process holds the lock of apt or dpkg, as unattended-upgrades does on a fresh VM",
        ("sudo fuser -v /var/lib/dpkg/lock-frontend /var/lib/apt/lists/lock   # on the host: who holds it",),
    )


def init_hang(scene: Scene) -> Trouble | None:
    """Workers wait in jax.distributed for one that does not come."""
    told = _told(
        scene,
        "init_hang",
        r"\bjoining exceeded [\d.]+ s|deadline of [\d.]+ s for init passed|Barrier timed out.{0,200}PjRT_Client_Connect"
        r"|CoordinationService/RegisterTask|Some timed out task names",
        "workers waited in jax.distributed for others",
        (f"slicebench logs {scene.run_id} --worker N",),
    )
    waiting = [seen for seen in scene.workers if seen.step == "joining"]
    absent = [seen for seen in scene.workers if seen.step in ("started", "exited")]
    if told is None and (scene.ended or not waiting or not absent):
        return None
    if not waiting or not absent:
        return told
    missing, there = _workers(absent), _workers(waiting)
    return Trouble(
        "init_hang",
        f"jax.distributed is not complete: {missing} is missing, {there} waiting",
        (*(told.evidence if told else ()), *(seen.line for seen in (*absent, *waiting)))[:_MOST_EVIDENCE],
        (f"slicebench logs {scene.run_id} --worker {absent[0].worker}",),
    )


def out_of_memory(scene: Scene) -> Trouble | None:
    """Memory of the host or of a device ran out."""
    return _told(
        scene,
        "out_of_memory",
        r"out-of-memory killer|ran out of memory|RESOURCE_EXHAUSTED: .{0,80}(out of memory|allocat)|\bMemoryError\b"
        r"|std::bad_alloc|oom-kill|Out of memory",
        "memory ran out",
        (
            "slicebench plan SUITE --target TARGET   # what the largest checkpoint takes",
            "dmesg -T | grep -i oom   # on the host",
        ),
    )


def out_of_disk(scene: Scene) -> Trouble | None:
    """A disk or a quota of one ran out."""
    return _told(
        scene,
        "out_of_disk",
        r"No space left on|Disk quota exceeded|\bENOSPC\b",
        "a disk is full",
        ("df -h; df -i   # on the host that is named", "slicebench run … --output OTHER_FOLDER"),
    )


def not_importable(scene: Scene) -> Trouble | None:
    """The suite's generator, or something that it needs, cannot be imported."""
    return _told(
        scene,
        "import_error",
        r"generator \S+ cannot be imported|^\s*(\[\d+\] )?(ModuleNotFoundError|ImportError): ",
        "Python code of the suite cannot be imported",
        ("slicebench check SUITE",),
    )


def wrong_data(scene: Scene) -> Trouble | None:
    """What was restored is not what was saved."""
    return _told(
        scene,
        "wrong_data",
        r"restored leaf .{1,300} is not what was saved|the restored tree (differs|lacks|has, beyond)",
        "what was restored is not what was saved: the program under test lost or changed data",
        (f"slicebench report {scene.run_id}",),
    )


def deadline(scene: Scene) -> Trouble | None:
    """An operation, a point or the run took longer than it may; the straggler is named."""
    return _told(
        scene,
        "deadline",
        r"(operation \S+|the point|the run|silence between operations) exceeded [\d.]+ s"
        r"|deadline of [\d.]+ s for (operation|point|run|silence) passed",
        "a deadline passed, and the worker that is named held up the others",
        (
            f"grep -n -A40 'supervisor: stacks' LOG   # LOG: a file of logs/ in the folder of {scene.run_id}",
            "slicebench run … --operation-deadline-s SECONDS   # where it only needs longer",
        ),
        unknown="slow or stuck: the stacks of the straggler say where it was",
    )


def worker_killed(scene: Scene) -> Trouble | None:
    """A worker's process was ended by a signal."""
    return _told(
        scene,
        "worker_killed",
        r"worker \d+ was killed by \S+",
        "a worker's process was ended by a signal",
        ("dmesg -T | tail   # on its host", f"slicebench logs {scene.run_id}"),
        unknown="who sent the signal: a person, a scheduler, or the kernel (its log says the last)",
    )


def worker_down(scene: Scene) -> Trouble | None:
    """A supervisor, or its whole host, went away."""
    return _told(
        scene,
        "worker_down",
        r"the supervisor is gone without a last word|lost the supervisor of worker \d+|is gone: it was rebooted",
        "a worker's supervisor, or its whole host, went away",
        (
            "slicebench doctor --target TARGET   # do all hosts answer?",
            "uptime; dmesg -T | tail   # on its host",
        ),
        unknown="whether only the process or the host died: whether the host was up all the time says it",
    )


def slicebench_killed(scene: Scene) -> Trouble | None:
    """The process that led the run died; nobody wrote how the run ended."""
    what = "the slicebench process that led this run was killed"
    resume = f"slicebench run --resume {scene.run_id}   # goes on with what is missing"
    commands = (resume, "slicebench reap --dry-run   # what would be given back")
    if not scene.ended and scene.owner_alive is False:
        lease = Line(Place(scene.lease_place), f"lease {scene.lease_id}: owner {scene.owner}, which is gone")
        return Trouble("slicebench_killed", what, (lease,), commands)
    return _told(
        scene,
        "slicebench_killed",
        r"slicebench's process \d+ on \S+ (was killed|ended|fell silent) (during|after) "
        r"|the process that owns this run \(pid \d+\) is gone",
        what,
        (resume,),
    )


def lease_leaked(scene: Scene) -> Trouble | None:
    """Something that was made could not be proven gone."""
    if scene.lease_state != "leaked":
        return None
    line = Line(Place(scene.lease_place), f"lease {scene.lease_id} is leaked: {scene.lease_note}", said=True)
    return Trouble(
        "lease_leaked",
        "something made for this run could not be proven gone, and may cost money",
        (line,),
        ("slicebench leases", "slicebench reap"),
    )


def no_quota(scene: Scene) -> Trouble | None:
    """The project may not have more of these."""
    return _told(
        scene,
        "quota",
        r"ask for more quota|Quota .{1,120}(exceeded|limit)|quota exceeded",
        "the project has no quota left for this",
        ("slicebench tpu list   # what holds it", "slicebench doctor --target TARGET"),
    )


def no_capacity(scene: Scene) -> Trouble | None:
    """The zone has no hardware of the type left."""
    return _told(
        scene,
        "stockout",
        r"no more capacity|stockout|insufficient capacity|not enough resources",
        "the zone has no hardware of this type left",
        ("slicebench run … --target TARGET   # after adding zones: or queued: true to it",),
    )


def not_permitted(scene: Scene) -> Trouble | None:
    """Google Cloud does not let the caller do it."""
    return _told(
        scene,
        "permission",
        r"enable tpu\.googleapis\.com, or grant|no valid Google credentials|there are no Google credentials"
        r"|the account needs roles/",
        "Google Cloud does not let us: credentials, API or role are missing",
        ("slicebench doctor --target TARGET   # says which",),
    )


def waits_for_hardware(scene: Scene) -> Trouble | None:
    """Another run uses the hardware."""
    return _told(
        scene,
        "locked",
        r" is held by lease \S+",
        "another run uses the hardware",
        ("slicebench leases", "slicebench run … --wait-for-lock 30m"),
    )


def echo_of_a_failure(scene: Scene) -> Trouble | None:
    """Others sat in a barrier or a collective when one of them failed."""
    found = _told(
        scene,
        "barrier",
        r"another task died|tasks are unhealthy|heartbeat timeout|stopped sending heartbeats"
        r"|Gloo \w+ failed|Connection closed by peer|waiting for \S+ barrier",
        "workers were in a barrier or a collective with one that had failed: what they say is its echo",
        (f"slicebench logs {scene.run_id}   # look for the worker that says something else",),
    )
    return found and Trouble(found.name, found.what, found.evidence, found.next, follows=True)


RULES: Sequence[Rule] = (
    lease_leaked,
    out_of_disk,
    out_of_memory,
    host_key_changed,
    host_key_unknown,
    agent_refused,
    os_login,
    public_key_denied,
    iap_refused,
    unreachable,
    package_lock,
    no_quota,
    no_capacity,
    not_permitted,
    waits_for_hardware,
    not_importable,
    wrong_data,
    init_hang,
    deadline,
    worker_killed,
    slicebench_killed,
    worker_down,
    echo_of_a_failure,
)


def _told(
    scene: Scene, name: str, pattern: str, what: str, commands: Sequence[str], unknown: str = ""
) -> Trouble | None:
    """Returns the trouble if some line says so; the first lines that do are its evidence."""
    search = re.compile(pattern, re.IGNORECASE).search
    evidence = [line for line in scene.lines if search(line.text)][:_MOST_EVIDENCE]
    return Trouble(name, what, evidence, tuple(commands), unknown) if evidence else None


def _workers(seen: Sequence[Seen]) -> str:
    numbers = ", ".join(str(one.worker) for one in seen)
    return f"worker {numbers}" if len(seen) == 1 else f"workers {numbers}"
