"""Troubles with hardware and with what it is made under: quota, stockout, permission, locks, leases."""

from __future__ import annotations

from runtime.contract.errors import Place
from tasks.explain.scene import Line, Scene, Trouble
from tasks.explain.told import told


def no_quota(scene: Scene) -> Trouble | None:
    """The project may not have more of these."""
    return told(
        scene,
        "quota",
        r"ask for more quota|Quota .{1,120}(exceeded|limit)|quota exceeded",
        "the project has no quota left for this",
        ("slicebench tpu list   # what holds it", "slicebench doctor --target TARGET"),
    )


def no_capacity(scene: Scene) -> Trouble | None:
    """The zone has no hardware of the type left."""
    return told(
        scene,
        "stockout",
        r"no more capacity|stockout|insufficient capacity|not enough resources",
        "the zone has no hardware of this type left",
        ("slicebench run … --target TARGET   # after adding zones: or queued: true to it",),
    )


def not_permitted(scene: Scene) -> Trouble | None:
    """Google Cloud does not let the caller do it."""
    return told(
        scene,
        "permission",
        r"enable tpu\.googleapis\.com, or grant|: grant roles/|the account needs roles/"
        r"|no valid Google credentials|there are no Google credentials",
        "Google Cloud does not let us: credentials, API or role are missing",
        ("slicebench doctor --target TARGET   # says which",),
    )


def waits_for_hardware(scene: Scene) -> Trouble | None:
    """Another run uses the hardware."""
    return told(
        scene,
        "locked",
        r" is (held|used) by lease \S+",
        "another run uses the hardware",
        ("slicebench leases", "slicebench run … --wait-for-lock 30m"),
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
