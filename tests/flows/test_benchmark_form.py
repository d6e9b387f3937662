"""The form that people fill in: the same fields as the command, and none that shows raw JSON."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from prefect.utilities.callables import parameter_schema
from pydantic import TypeAdapter
from pydantic_core import PydanticUndefined

from flows.benchmark import benchmark, give_back
from runtime.contract.errors import BadInput
from tasks.config.request import RunRequest, as_filled_in
from tasks.stages.prepare import resolve, settled

ROOT = Path(__file__).parents[2]
PARAMETERS = inspect.signature(benchmark.fn, eval_str=True).parameters
SCHEMA = parameter_schema(benchmark).model_dump()


def test_parameters_are_the_fields_of_a_request() -> None:
    assert list(PARAMETERS) == list(RunRequest.model_fields)


def is_text_or_nothing(name: str) -> bool:
    """Says whether a field is left empty in the form for what is None elsewhere."""
    options = TypeAdapter(RunRequest.model_fields[name].annotation).json_schema().get("anyOf", [])
    return [option["type"] for option in options] == ["string", "null"]


@pytest.mark.parametrize("name", list(RunRequest.model_fields))
def test_a_parameter_has_the_type_and_default_of_its_field(name: str) -> None:
    field, parameter = RunRequest.model_fields[name], PARAMETERS[name]
    shown, expected = SCHEMA["properties"][name], TypeAdapter(field.annotation).json_schema()
    if is_text_or_nothing(name):
        (text, _), default = expected["anyOf"], ""
        expected = text | ({"enum": ["", *text["enum"]]} if "enum" in text else {})
    else:
        default = field.get_default(call_default_factory=True)
    assert parameter.default == (inspect.Parameter.empty if default is PydanticUndefined else default)
    assert {key: shown[key] for key in ("type", "enum") if key in shown} == {
        key: expected[key] for key in ("type", "enum") if key in expected
    }


def test_null_is_taken_for_empty() -> None:
    names = [name for name in RunRequest.model_fields if is_text_or_nothing(name)]
    given = benchmark.validate_parameters({"suite": "quickstart"} | dict.fromkeys(names))
    assert as_filled_in(given) == RunRequest(suite="quickstart")


def test_what_is_left_empty_in_the_form_is_not_asked_for() -> None:
    form = {name: one.default for name, one in PARAMETERS.items()} | {"suite": "quickstart"}
    assert as_filled_in(form) == RunRequest(suite="quickstart")
    filled = {"branch": "main", "from_stage": "run", "workers": 3}
    assert as_filled_in(form | filled) == RunRequest(suite="quickstart", **filled)
    with pytest.raises(BadInput, match="^keep_for must be a time, such as 90s, 30m, 4h or 2d, not ''$"):
        as_filled_in(form | {"keep_for": ""})


@pytest.mark.parametrize("name", list(RunRequest.model_fields))
def test_a_parameter_is_explained_as_its_flag_is(name: str) -> None:
    assert SCHEMA["properties"][name]["description"] == RunRequest.model_fields[name].description


@pytest.mark.parametrize("name", list(RunRequest.model_fields))
def test_no_parameter_shows_as_raw_json(name: str) -> None:
    def kinds(schema: dict[str, Any]) -> set[str]:
        if "anyOf" in schema:
            return set().union(*(kinds(option) for option in schema["anyOf"]))
        return {schema.get("type", "json")}

    assert kinds(SCHEMA["properties"][name]) <= {"string", "integer", "number", "boolean", "array", "null"}
    if SCHEMA["properties"][name].get("type") == "array":
        assert SCHEMA["properties"][name]["items"] == {"type": "string"}


def test_choices_are_drop_downs() -> None:
    assert SCHEMA["properties"]["keep"]["enum"] == ["never", "on_failure", "always"]


def test_the_form_takes_names_as_people_write_them_and_paths_as_the_command_sends_them(
    tmp_path: Path,
) -> None:
    asked = RunRequest(suite="quickstart", output=str(tmp_path))
    sent = settled(asked, resolve(asked, {}))
    assert (sent.target, sent.suite) == (
        str(ROOT / "configs/targets/local.yaml"),
        str(ROOT / "configs/suites/quickstart.yaml"),
    )
    for parameters in (asked, sent):
        jsonschema.validate(parameters.model_dump(exclude_none=True), SCHEMA)


def test_hooks_take_the_names_that_prefect_calls_them_by() -> None:
    # A worker calls hooks by keyword: other names work in every test and fail after a kill -9.
    assert list(inspect.signature(give_back).parameters) == ["flow", "flow_run", "state"]
    assert benchmark.on_crashed_hooks == [give_back]
    assert benchmark.on_cancellation_hooks == [give_back]


def test_every_deployment_starts_a_flow_that_exists_with_parameters_that_it_has() -> None:
    from flows import environment
    from flows.acceptance import acceptance
    from flows.nightly import nightly
    from flows.reap import reap

    flows = {
        "flows/acceptance.py:acceptance": acceptance,
        "flows/environment.py:make": environment.make,
        "flows/environment.py:give_back": environment.give_back,
        "flows/benchmark.py:benchmark": benchmark,
        "flows/nightly.py:nightly": nightly,
        "flows/reap.py:reap": reap,
    }
    deployments = yaml.safe_load((ROOT / "deployments/prefect.yaml").read_text())["deployments"]
    names, forms = set(), {}
    for deployment in deployments:
        flow = flows[deployment["entrypoint"]]
        names.add(f"{flow.name}/{deployment['name']}")
        parameters = set(inspect.signature(flow.fn).parameters)
        assert set(deployment.get("parameters", {})) <= parameters
        forms[deployment["name"]] = parameters
    assert forms["up"] == {"file", "set", "force", "limit", "wait"}, (
        "a form asks for what its deployment can do"
    )
    assert forms["down"] == {"file", "set", "bucket", "limit", "wait"}
    assert names == {
        "acceptance/adhoc",
        "benchmark/adhoc",
        "environment/down",
        "environment/up",
        "nightly/weeknights",
        "reap/every-10-minutes",
    }


def test_reaper_and_nights_are_in_pools_of_their_own() -> None:
    # Both would wait for benchmarks that wait for their place.
    deployments = yaml.safe_load((ROOT / "deployments/prefect.yaml").read_text())["deployments"]
    pools = {deployment["entrypoint"]: deployment["work_pool"]["name"] for deployment in deployments}
    assert len(set(pools.values())) == 3
    benchmarks = pools["flows/benchmark.py:benchmark"]
    assert [flow for flow, pool in pools.items() if pool == benchmarks] == ["flows/benchmark.py:benchmark"]


def test_a_schedule_says_its_time_zone_and_weeknights_come_one_at_a_time() -> None:
    deployments = yaml.safe_load((ROOT / "deployments/prefect.yaml").read_text())["deployments"]
    for deployment in deployments:
        for schedule in deployment.get("schedules", []):
            assert schedule["timezone"]
    (weeknights,) = (deployment for deployment in deployments if deployment["name"] == "weeknights")
    assert weeknights["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}
