"""Troubles in getting to hosts: keys, OS Login, host keys, tunnels, firewalls, locks of package managers."""

from __future__ import annotations

from tasks.explain.scene import Scene, Trouble
from tasks.explain.told import told


def public_key_denied(scene: Scene) -> Trouble | None:
    """The host takes none of the keys that were offered."""
    return told(
        scene,
        "public_key_denied",
        r"permission denied \(publickey|it takes no keys, only|it hung up after \d+ keys|there is no key to offer",
        "a host does not let us in: it takes none of the keys that were offered",
        ("slicebench doctor --target TARGET", "ssh -v -o IdentitiesOnly=yes -i KEY USER@HOST true"),
        unknown="whether the host lacks the key or ignores it (OS Login does): its sshd's log says which",
    )


def agent_refused(scene: Scene) -> Trouble | None:
    """The SSH agent has no key, does not answer, or does not sign."""
    return told(
        scene,
        "agent_refused",
        r"the SSH agent (has no key|does not answer)|agent refused operation|sign_and_send_pubkey: signing failed"
        r"|Could not open a connection to your authentication agent",
        "the SSH agent does not give a key",
        ("ssh-add -l", "ssh-add KEY"),
    )


def os_login(scene: Scene) -> Trouble | None:
    """OS Login decides who gets in; it ignores keys in metadata."""
    return told(
        scene,
        "os_login",
        r"\bos-?login\b|\bOS Login\b|Login profile size exceeds",
        "OS Login decides who may log in there, and then keys in the metadata count for nothing",
        (
            "gcloud compute project-info describe --format='value(commonInstanceMetadata.items)'",
            "gcloud compute os-login ssh-keys list",
            # What a TPU's own metadata says outranks its project's.
            "gcloud compute tpus tpu-vm update TPU --zone=ZONE --update-metadata=enable-oslogin=FALSE",
        ),
        unknown="whether your account has roles/compute.osLogin (or osAdminLogin) there",
    )


def host_key_unknown(scene: Scene) -> Trouble | None:
    """Nobody has told us the host's key."""
    return told(
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
    return told(
        scene,
        "host_key_changed",
        r"it shows (ssh|ecdsa|sk|rsa)-\S+ .{1,200} says|REMOTE HOST IDENTIFICATION HAS CHANGED|its host key is revoked",
        "a host shows another key than the one that is known: it was reinstalled, or it is another one",
        ("ssh-keygen -R HOST   # only after its new fingerprint was checked on the host itself",),
    )


def iap_refused(scene: Scene) -> Trouble | None:
    """The tunnel of Identity-Aware Proxy does not come about."""
    return told(
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
    return told(
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
    return told(
        scene,
        "dpkg_lock",
        r"Could not get lock \S*(dpkg|apt)|Waiting for cache lock|Unable to (acquire|lock) .{0,60}(dpkg|apt)"
        r"|dpkg was interrupted|/(dpkg|apt)/\S*lock\S* is held by process",
        "another process holds the lock of apt or dpkg, as unattended-upgrades does on a fresh VM",
        ("sudo fuser -v /var/lib/dpkg/lock-frontend /var/lib/apt/lists/lock   # on the host: who holds it",),
    )
