"""Environments: made as their files say, changed, gone on with after a failure, and given back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from runtime.contract.errors import BadInput, InfrastructureError, Leaked
from tasks.cloud import services
from tasks.cloud.buckets import Buckets
from tasks.cloud.container_errors import Disabled, NotFound, PermissionDenied, QuotaExhausted
from tasks.cloud.google_rest import Rest
from tasks.cloud.waits import in_words
from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_cluster import cluster_of
from tasks.config.environment_roles import apis_for, needs_of, permissions_to_give_back
from tasks.leases import environments as kinds
from tasks.leases.claim import claim
from tasks.leases.clusters import lease_name as cluster_lease
from tasks.leases.holding import Holding, Taken
from tasks.leases.lease import State
from tasks.leases.ledger import latest
from tasks.leases.patience import USUAL, Patience
from tasks.leases.resource import ResourceRef
from tasks.stages import clusters
from tasks.stages.environment_asked import asked
from tasks.stages.environment_changes import change_cluster, differs
from tasks.stages.environment_desk import GO_ON, Desk, carry_out, settle
from tasks.stages.environment_done import Done, Work, done
from tasks.stages.environment_ending import ended_by
from tasks.stages.environment_kept import keeps_network
from tasks.stages.environment_moved import moved
from tasks.stages.environment_plan import (
    ASKS,
    Plan,
    in_words_of_files,
    lacking,
    looked_at,
    lost_record,
    may_not,
    of_others_inside,
    others_in,
)
from tasks.stages.environment_quota import short_of_quota
from tasks.stages.environment_record import about_to, another_cluster, made_so
from tasks.stages.environment_unnamed import give_back_unnamed, make_way
from tasks.stages.environment_way_out import one_too_many
from tasks.targets.cluster_making import NotWhole
from tasks.targets.environment_diff import Step
from tasks.targets.environment_wanted import wanted
from tasks.targets.kube_install import NotReady

KEPT_S = 120.0
"""How long the rest may take where the network cannot go at all."""

_AFTER_CLUSTER = frozenset({"account role"})
"""What names the cluster's pool of identities, which must be there."""


def up(
    desk: Desk,
    config: EnvironmentConfig,
    *,
    agree: Callable[[Sequence[str]], bool] = lambda in_use: True,
    wait_s: float = 0.0,
) -> Done:
    """Makes an environment as it is wanted, or makes it so. Called again it goes on where it ended.

    Somebody else who works on it is waited for so long. The record must be there, see `bootstrap`. What was made stays,
    whatever goes wrong. `agree` is shown the node pools that go while something runs on them, if there are any. Raises
    BadInput, Declined, Taken, ContainerError, NotWhole, NotReady.
    """
    name = kinds.lease_name(desk.project, config.called)
    cluster = cluster_lease(desk.project, config.cluster.name)
    holding = claimed(desk, name, wait_s)
    before = latest(desk.ledger, cluster)
    with _left_standing(desk, holding, "not whole: do the same again"):
        holding.stand(None)
        with holding.renewing():
            if against := another_cluster(desk.ledger, config, desk.project):
                raise BadInput(against)
            holding.describe(about_to(holding.lease.shape, config), None)
            settle(desk, holding)
            work = _make_all(desk, config, holding, agree)
            holding.describe(made_so(config), None)
            holding.live()
        holding.detach(None)
    return done(work, holding.lease, before, latest(desk.ledger, cluster))


def down(
    desk: Desk,
    config: EnvironmentConfig,
    *,
    bucket: bool = False,
    agree: Callable[[Sequence[str]], bool] = lambda going_on: True,
    wait_s: float = 0.0,
) -> Sequence[ResourceRef]:
    """Gives an environment back, and looks that it is gone; returns what went.

    The bucket stays unless it is asked for. `agree` is shown what goes on in the cluster, if anything does. Raises
    BadInput where there never was one, or its bucket is not empty and may not be emptied; Declined, Taken, Leaked.
    """
    name, cluster = kinds.lease_name(desk.project, config.called), config.cluster.name
    lease, made = (latest(desk.ledger, one) for one in (name, cluster_lease(desk.project, cluster)))
    left = bucket and _own_bucket(desk, config)
    if all(one is None or one.state is State.GONE for one in (lease, made)) and not left:
        with suppress(Disabled, PermissionDenied):  # who may not look at clusters has none that is known
            if lost := lost_record(desk, config):
                raise BadInput(lost)
        if lease is not None or made is not None:  # it was given back before
            return []
        raise BadInput(
            f"nothing of environment {config.called} is there: its record is {desk.ledger.uri}",
            fix="name the file, project and record that it was made with",
        )
    if against := another_cluster(desk.ledger, config, desk.project):
        raise BadInput(against)
    _refuse_lacking(desk, config, bucket=bucket)
    if left:
        _refuse_full(desk, config)
    gone: list[ResourceRef] = []
    if kept := keeps_network(desk, config):
        desk.say(
            f"warning: the network has {', '.join(kept)}, which slicebench did not make: it stays until that is gone"
        )
    patience = replace(USUAL, tell=desk.say, tell_after_s=8.0)
    patience = replace(patience, at_most_s=KEPT_S) if kept else patience
    with _naming(desk, name, kept):
        holding = claimed(desk, name, wait_s, patience)
        with _left_standing(desk, holding, "half given back: do the same again"), holding.renewing():
            settle(desk, holding)
            if made is not None and made.state is not State.GONE:
                desk.say(f"give back cluster {cluster}")
                gone += clusters.delete(desk.office(config), cluster, agree=agree)
            _about_bucket(desk, config, holding, take=bucket)
            holding.fall()
            desk.say("give back the rest")
            given_back = holding.release("env down", patience)
        if given_back.lease.state is not State.GONE:
            raise Leaked(f"not proven gone: {given_back.lease.note}; do the same again")
    return [*gone, *given_back.deleted]


@contextmanager
def _naming(desk: Desk, name: str, kept: Sequence[str]) -> Iterator[None]:
    """Says of what is not proven gone that it is the network alone, and for what of others' in it."""
    try:
        yield
    except Leaked:
        lease = latest(desk.ledger, name)
        mine = lease.resources if lease is not None else ()
        if not kept or [ref.kind for ref in mine if ref.ours] != [kinds.NETWORK]:
            raise
        told = f"all is gone but the network, for {', '.join(kept)} in it"
        raise Leaked(f"{told}: delete that, and do the same again") from None


def bucket_left(desk: Desk, config: EnvironmentConfig) -> str:
    """Returns the bucket that stays when an environment is given back, and costs; empty: it is gone, or another's."""
    try:
        return config.bucket.name if _own_bucket(desk, config) else ""
    except Disabled:
        return ""


def claimed(desk: Desk, name: str, wait_s: float, patience: Patience = USUAL) -> Holding:
    """Takes the record for this process, once whoever works on it is done. Raises Taken when that takes too long.

    `patience`: for what an earlier one began to give back.
    """
    until, told = time.monotonic() + wait_s, False
    while True:
        try:
            return claim(
                desk.ledger, desk.inventories, name, None, patience=patience, say=desk.say, go_on=GO_ON
            )
        except Taken as error:
            if time.monotonic() >= until:
                raise
            if not told:
                desk.say(f"{error}. Waiting until that is done, {in_words(wait_s)} at most")
            told = True
        time.sleep(desk.poll_s)


def bootstrap(desk: Desk, config: EnvironmentConfig) -> bool:
    """Makes the bucket in which the record is, where it is missing; returns whether it did. It is never taken away.

    Raises BadInput before it does where a permission is lacking for what follows, or the place lacks the machines, and
    InfrastructureError where what is put into the cluster cannot be had; ContainerError.
    """
    bucket, api = config.record.split("/")[2], "storage.googleapis.com"
    sort = Buckets(rest=Rest(api, timing=desk.timing))
    try:
        there = sort.look(desk.project, bucket)
    except Disabled:
        services.turn_on_one(
            desk.project, api, desk.timing, desk.say, lambda: sort.look(desk.project, bucket)
        )
        there = sort.look(desk.project, bucket)
    if there is not None:
        return False
    # Nothing is made where one could not go on.
    off = services.off(desk.project, apis_for(config), desk.timing)
    if ASKS not in off and (missing := lacking(desk, config)):
        raise BadInput([may_not(missing, needs_of(config))])
    with suppress(Disabled), in_words_of_files():  # where the APIs are off, `up` knows once they are on
        clusters.check_place(desk.office(config), cluster_of(config, desk.project))
    if (inside := desk.office(config).inside) is not None:
        inside.ready(cluster_of(config, desk.project))
    desk.say(f"bootstrap: make bucket {bucket} for the record, which stays when the environment goes")
    fields = {
        "location": config.region.upper(),
        "versioning": {"enabled": True},
        "iamConfiguration": {
            "uniformBucketLevelAccess": {"enabled": True},
            "publicAccessPrevention": "enforced",
        },
    }
    sort.make(desk.project, bucket, fields, {"managed-by": "slicebench"})
    return True


@contextmanager
def _left_standing(desk: Desk, holding: Holding, note: str) -> Iterator[None]:
    """Lets the record be nobody's when it ends amid the work: what stands stays, and the next one need not wait.

    What it ended by is what is told, also where the record cannot be written any more.
    """
    try:
        yield
    except BaseException:
        if holding.lease.owner is not None and holding.lease.stands:
            try:
                holding.detach(None, note)
            except InfrastructureError as error:
                desk.say(f"warning: the record still says that this process works on it: {error}")
        raise


def _make_all(
    desk: Desk, config: EnvironmentConfig, holding: Holding, agree: Callable[[Sequence[str]], bool]
) -> Work:
    _turn_on(desk, config)
    office = desk.office(config)
    with in_words_of_files():
        clusters.check_place(office, cluster_of(config, desk.project))
    if short := short_of_quota(desk, config):
        raise QuotaExhausted(short)
    if office.inside is not None:  # what is put into the cluster may have to be fetched from far away
        office.inside.ready(cluster_of(config, desk.project))
    steps = [desk.step(config, one) for one in asked(desk, config)]
    refused = [step for step in steps if step.do == "refuse"]
    against = [*(others_in(office, config, desk) or moved(desk, config)), *one_too_many(desk, config)]
    if refused or against:
        raise BadInput(Plan("", (), (), refused, (), {}, against=against).problems)
    if (in_use := ended_by(desk, config)) and not agree(in_use):
        raise clusters.Declined(f"environment {config.called} stays as it is: nobody agreed")
    for one in looked_at(desk, config):
        desk.say(f"warning: {one}")
    gone = make_way(desk, config, holding, steps)
    for step in (one for one in steps if one.wanted.kind not in _AFTER_CLUSTER):
        carry_out(desk, holding, step)
    ended: NotWhole | NotReady | None = None
    try:
        clusters.create(office, config.cluster.name, cluster_of(config, desk.project), lasting=True)
    except (NotWhole, NotReady) as error:  # the cluster is there: who works on what it has needs all the rest
        ended = error
    for step in (one for one in steps if one.wanted.kind in _AFTER_CLUSTER):
        carry_out(desk, holding, step)
    stays = [f"{step.wanted}: {one}" for step in steps for one in step.differences if not one.can]
    differed = differs(desk, config)
    stays += change_cluster(desk, config)
    gone += give_back_unnamed(desk, config, holding)
    if ended is not None:
        raise ended
    return Work(steps, differed, [*stays, *of_others_inside(desk, config)], gone, office.inside)


def _turn_on(desk: Desk, config: EnvironmentConfig) -> None:
    """Turns on the APIs that are off, once it is known that all may be done: by one of them, if need be."""
    off = services.off(desk.project, apis_for(config), desk.timing)
    if ASKS in off:
        services.turn_on_one(desk.project, ASKS, desk.timing, desk.say, lambda: lacking(desk, config))
        off = [one for one in off if one != ASKS]
    if missing := lacking(desk, config):
        raise BadInput([may_not(missing, needs_of(config))])
    if off:
        desk.say(f"turn on {', '.join(off)}")
        services.turn_on(desk.project, off, desk.timing)
        services.once_on(desk.timing, lambda: _look_all_over(desk, config))


def _look_all_over(desk: Desk, config: EnvironmentConfig) -> None:
    clusters.check_place(desk.office(config), cluster_of(config, desk.project))
    for one in asked(desk, config):
        desk.step(config, one)


def _bucket_step(desk: Desk, config: EnvironmentConfig) -> Step:
    bucket = next(one for one in wanted(config, desk.project) if one.kind == "bucket")
    return desk.step(config, bucket)


def _own_bucket(desk: Desk, config: EnvironmentConfig) -> bool:
    return _bucket_step(desk, config).do in ("keep", "change")


def _refuse_lacking(desk: Desk, config: EnvironmentConfig, *, bucket: bool) -> None:
    """Raises BadInput, before anything goes, where whoever asks may not give back all of it."""
    with suppress(Disabled):  # then nobody can be asked
        if missing := lacking(desk, config, permissions_to_give_back(config, desk.project, bucket=bucket)):
            raise BadInput([may_not(missing, needs_of(config))])


def _refuse_full(desk: Desk, config: EnvironmentConfig) -> None:
    buckets = Buckets(rest=Rest("storage.googleapis.com", timing=desk.timing))
    try:
        full = not config.bucket.force_destroy and not buckets.is_empty(config.bucket.name)
    except NotFound:
        return
    if full:
        raise BadInput(
            f"bucket {config.bucket.name} is not empty, so nothing was given back",
            fix="bucket: {force_destroy: true} lets it go with all that is in it; or leave --bucket out, and it stays",
        )


def _about_bucket(desk: Desk, config: EnvironmentConfig, holding: Holding, *, take: bool) -> None:
    """Lets the bucket be no longer the lease's, so that it stays; or sees to it that it goes.

    One that an earlier file named stays in any case.
    """
    buckets = [one for one in holding.lease.resources if one.kind == kinds.BUCKET and one.ours]
    ref = next((one for one in buckets if one.name == config.bucket.name), None)
    for one in buckets:
        if one is ref and take:
            continue
        if one is ref:
            _label_again(desk, config, holding, one)
        why = "--bucket gives it back as well" if one is ref else "the file does not name it any more"
        desk.say(f"bucket {one.name} stays: {why}")
        holding.forget(one)
    if not take:
        return
    if ref is None and _own_bucket(desk, config):  # it stayed when the environment went before
        bucket = Buckets(rest=Rest("storage.googleapis.com", timing=desk.timing))
        there = bucket.look(desk.project, config.bucket.name)
        if there is not None:
            ref = holding.create(kinds.BUCKET, desk.project, config.bucket.name, lambda: there.uid)
    if ref is None:
        gone = _bucket_step(desk, config).do == "make"
        told = "is gone already" if gone else "was not made for it: it stays"
        desk.say(f"bucket {config.bucket.name} {told}")
    elif config.bucket.force_destroy:
        Buckets(rest=Rest("storage.googleapis.com", timing=desk.timing)).empty(ref.name)


def _label_again(desk: Desk, config: EnvironmentConfig, holding: Holding, ref: ResourceRef) -> None:
    """Gives a bucket that is about to be left the labels again that somebody took away: by them it is known later."""
    step = _bucket_step(desk, config)
    lost = tuple(one for one in step.differences if one.path.startswith("labels."))
    if step.do == "change" and lost and step.wanted.name == ref.name:
        carry_out(desk, holding, replace(step, differences=lost))
