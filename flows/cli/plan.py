"""`slicebench plan`: what a run would make, use and cost, and whether it builds anew. Makes nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import Parameter

from flows.cli.check import not_looked_at
from flows.cli.run import NO_FLAGS, Flags, request_of
from flows.cli.said import Json, print_json, say
from flows.cli.verbose import show_calls
from runtime.contract.counting import counted
from runtime.contract.errors import ExitCode, Place, refusal


def plan(
    suite: Annotated[str, Parameter(help="Suite to plan: a path, or a name in configs/suites/")],
    /,
    *,
    flags: Annotated[Flags, Parameter(name="*", negative="")] = NO_FLAGS,
    json: Json = False,
) -> int:
    """Show what a run would create, use and cost, and whether it would build anything. Creates nothing."""
    show_calls(flags.verbose)
    from tasks.cloud.permission import may_write
    from tasks.stages.build import explain_build
    from tasks.stages.prepare import resolve
    from tasks.stages.provision import look_over
    from tasks.stages.refusals import refuse_bad_keys, refuse_unwritable
    from tasks.targets.beside_told import lines, standing
    from tasks.targets.open import open_target

    spec = resolve(request_of(suite, flags, resume=None), os.environ)
    refuse_unwritable(spec, may_write, here=True)
    refuse_bad_keys(spec, Place(spec.target_name))
    target = open_target(spec.target)
    planned = target.plan(spec)
    problems = [*spec.warnings, *spec.left_out, *look_over(target, planned, spec)]
    build, beside = explain_build(spec), standing(spec.target)
    told: dict[str, Any] = {
        **asdict(planned),
        "run_id": spec.run_id,
        "suite": spec.suite_name,
        "points": len(spec.points),
        "repeats": spec.num_repeats,
        "output": f"{spec.output}/{spec.run_id}",
        "beside": asdict(beside) if beside is not None else None,
        "build": asdict(build),
        "problems": [str(problem) for problem in problems],
    }
    for name in ("warnings", "left_out"):  # they are among the problems
        del told[name]
    if json:
        print_json(told)
    else:
        print(
            "\n".join(
                _lines(told, str(build), list(lines(beside, told["output"])) if beside is not None else [])
            )
        )
    users = dict.fromkeys(point.generator for point in spec.points if point.implementation == "user")
    say(*build.notes, *map(not_looked_at, users), *map(str, problems))
    errors = [problem for problem in problems if problem.severity == "error"]
    return refusal(errors).exit_code if errors else ExitCode.DONE


def _left(most_s: float, alone_s: float | None) -> str:
    from tasks.config.duration import in_words

    alone = f" ({in_words(alone_s)} on machines that are made for it alone)" if alone_s else ""
    return f"to itself once it is started, for {in_words(most_s)} at most{alone}; --resume follows it and collects"


def _lines(told: dict[str, Any], build_said: str, beside: Sequence[str]) -> list[str]:
    """Returns the plan for people: one fact a line. `beside`: what stands beside each worker."""
    from tasks.leases.keeping import by_list_prices

    made = [f"{ref['kind']} {ref['name']} ({ref['scope']})" for ref in told["resources"] if ref["ours"]]
    facts = {
        "suite": f"{told['suite']}: {counted(told['points'], 'benchmark')}, {counted(told['repeats'], 'repeat')} each",
        "target": f"{told['target']}: {counted(told['slices'], 'slice')}, {counted(told['workers'], 'worker')} × "
        f"{counted(told['devices_per_worker'], told['platform'] + ' device')}",
        **({"beside": f"\n{'':10}".join(beside)} if beside else {}),
        "makes": f"{counted(len(made), 'resource')}: {'; '.join(made)}" if made else "nothing",
        **({"capacity": f"{told['capacity']}, for accelerators that are made"} if told["capacity"] else {}),
        **({"left": _left(told["left_s"], told["left_alone_s"])} if told["left_s"] else {}),
        "price": by_list_prices(told["price_per_hour"]),
        "build": build_said,
        "output": told["output"],
    }
    return [f"{name + ':':9} {fact}" for name, fact in facts.items()]
