"""Offers many steps to a checkpoint manager, which saves and keeps those that its policies say."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import jax
import orbax.checkpoint as ocp

from runtime import pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.errors import WorkloadFailed
from runtime.contract.options import Policies
from runtime.contract.options_managers import CheckpointPolicyOptions


class NotKept(WorkloadFailed):
    """A manager keeps other steps than its policies say."""


class CheckpointPolicy(Benchmark):
    """Operations: `should_save` at each step, `save` and `wait_until_finished` of those that are saved, deletion of
    what is no longer kept included, and `restore` of the newest.

    Orbax's benchmark of this name times all steps alike, those that it skips too, each under a name of its own. The
    steps that are there at the end must be those that the policies say, where no clock has a say in it.
    """

    options_class = CheckpointPolicyOptions
    options: CheckpointPolicyOptions

    def run(self, context: Context) -> None:
        given = self.options.checkpoint_policies_options
        target, held = pytree.abstract(context.tree), pytree.held_bytes(context.tree)
        with contextlib.closing(_manager(context, given)) as manager:
            saved = self._offer(context, manager)
            if not saved:
                raise NotKept(f"none of {self.options.num_checkpoints} steps was saved by these policies")
            manager.reload()  # what is there, not what the manager remembers
            kept = list(manager.all_steps())
            context.value("save", "kept_steps", len(kept), "count")
            check_kept(given, saved, kept)
            pytree.free(context.tree)
            wanted = ocp.args.PyTreeRestore(
                item=target, restore_args=ocp.checkpoint_utils.construct_restore_args(target)
            )
            with context.measure("restore", payload_bytes=held):
                restored = manager.restore(kept[-1], args=wanted)
                jax.block_until_ready(restored)
        context.verify(restored)
        pytree.free(restored)

    def _offer(self, context: Context, manager: ocp.CheckpointManager) -> list[int]:
        """Offers every step; returns those that were saved."""
        saved = []
        size = pytree.saved_bytes(context.tree)
        for step in range(self.options.num_checkpoints):
            with context.measure("should_save"):
                wanted = manager.should_save(step)
            if not wanted:
                continue
            with context.measure("save", payload_bytes=size, in_background=True) as save:
                # Decided above: a policy that goes by the clock could say something else a moment later.
                manager.save(step, args=ocp.args.PyTreeSave(context.tree), force=True)
            with context.measure("wait_until_finished") as wait:
                manager.wait_until_finished()
            context.recorder.throughput(size, save, wait)
            saved.append(step)
        return saved


def check_kept(given: Policies, saved: Sequence[int], kept: Collection[int]) -> None:
    """Proves that of the steps that were saved those are kept that the policies say. Raises NotKept."""
    expected = set(given.get("expected_preserve_checkpoints") or ())
    if missing := expected - set(kept):
        raise NotKept(f"steps {_told(missing)} were expected to be kept, and steps {_told(kept)} are")
    if foreign := set(kept) - set(saved):
        raise NotKept(f"steps {_told(foreign)} are there and were not saved")
    rules = given["preservation_policies"]
    if any(rule["policy_type"] == "EveryNSeconds" for rule in rules):
        return
    # A manager looks after each save at what it kept until then, so a step that was given up is gone for good.
    there: list[int] = []
    for step in saved:
        there.append(step)
        there = [one for one in there if any(_keeps(rule, one, there) for rule in rules)]
    if set(kept) != set(there):
        raise NotKept(f"the policies keep steps {_told(there)}, and steps {_told(kept)} are there")


def _keeps(rule: Mapping[str, Any], step: int, there: Sequence[int]) -> bool:
    match rule["policy_type"]:
        case "LatestN":
            newest = rule.get("n")
            return newest is None or step in there[len(there) - newest :] or len(there) <= newest
        case "EveryNSteps":
            return bool(step % rule["interval_steps"] == 0)
        case _:
            return step in rule["custom_steps"]


def _told(steps: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(steps))) or "none"


def _manager(context: Context, given: Policies) -> ocp.CheckpointManager:
    policies = ocp.checkpoint_managers
    return ocp.CheckpointManager(
        context.path,
        options=ocp.CheckpointManagerOptions(
            preservation_policy=policies.AnyPreservationPolicy(
                policies=[_preservation(each) for each in given["preservation_policies"]]
            ),
            save_decision_policy=policies.AnySavePolicy(
                policies=[_decision(each) for each in given["save_decision_policies"]]
            ),
        ),
    )


def _preservation(rule: Mapping[str, Any]) -> Any:
    policies = ocp.checkpoint_managers
    match rule["policy_type"]:
        case "LatestN":
            return policies.LatestN(n=rule.get("n"))
        case "EveryNSeconds":
            return policies.EveryNSeconds(interval_secs=rule["interval_secs"])
        case "EveryNSteps":
            return policies.EveryNSteps(interval_steps=rule["interval_steps"])
        case _:
            return policies.CustomSteps(rule["custom_steps"])


def _decision(rule: Mapping[str, Any]) -> Any:
    policies = ocp.checkpoint_managers
    match rule["policy_type"]:
        case "FixedIntervalPolicy":
            return policies.FixedIntervalPolicy(interval=rule["interval_steps"])
        case "SpecificStepsPolicy":
            return policies.SpecificStepsPolicy(steps=rule["custom_steps"])
        case "ContinuousCheckpointingPolicy":
            return policies.ContinuousCheckpointingPolicy(
                minimum_interval_secs=rule.get("minimum_interval_secs")
            )
        case "InitialSavePolicy":
            return policies.InitialSavePolicy()
        case _:
            return policies.PreemptionCheckpointingPolicy()
