"""JSON schemas of the files people write, generated from what reads them, so that editors complete and check them."""

from __future__ import annotations

from typing import Any

from runtime.contract.disruption import ALL, MOMENTS, SIGNALS
from runtime.contract.generator import Generator
from runtime.contract.generators import GENERATORS, known_names
from runtime.contract.options import REQUIRED, Option
from runtime.contract.suite_data import DTYPES
from runtime.contract.suite_options import POLICY_KEYS, POLICY_TYPES

Schema = dict[str, Any]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_JSON_TYPES = {"bool": "boolean", "int": "integer", "float": "number", "str": "string"}
_POSITIVE: Schema = {"type": "integer", "minimum": 1}
_TEXT: Schema = {"type": "string", "pattern": "\\S"}


def suite_schema() -> Schema:
    """Returns the schema of a suite. It refuses what is wrong in shape; what goes together, only `check` knows."""
    return {
        "$schema": _DRAFT,
        "title": "slicebench suite",
        "description": "Orbax's format, with warmup, deadline_s, disruption and nested trees",
        **_object(_suite_fields(), required=("suite_name", "benchmarks")),
        "allOf": [
            _not_both("mesh_config", "mesh_configs"),
            _not_both("checkpoint_config", "checkpoint_configs"),
        ],
        "$defs": {
            "mesh": _mesh(),
            "checkpoint": _checkpoint(),
            "tree": _tree(),
            "array": _array(),
            "simdevice": _simdevice(),
            "benchmark": _benchmark(),
            "disruption": _disruption(),
        },
    }


def _suite_fields() -> dict[str, Schema]:
    return {
        "suite_name": _TEXT | {"description": "Title of reports"},
        "num_repeats": _POSITIVE | {"default": 1, "description": "Repeats of each benchmark"},
        "repeats": _repeats(),
        "warmup": {
            "type": "integer",
            "minimum": 0,
            "default": 0,
            "description": "Repeats before those, kept but marked as warm-up",
        },
        "deadline_s": _seconds("Longest time for one benchmark, seconds"),
        "page_cache": {
            "enum": ["cold", "drop"],
            "description": "Evict a checkpoint's files before they are read; drop: all files, as root",
        },
        "interleave": {
            "type": "boolean",
            "default": False,
            "description": "Benchmarks of one class take turns, a repeat of each",
        },
        "only": {
            "type": "array",
            "minItems": 1,
            "items": {"type": ["string", "integer"], "minimum": 1, "minLength": 1},
            "description": "The benchmarks that are measured, by number from 1, name or key; default: all",
        },
        "limits": {
            "type": "boolean",
            "default": True,
            "description": "Measure first what the machines can do at best (disk, memory, devices)",
        },
        "mesh_config": {"$ref": "#/$defs/mesh"},
        "mesh_configs": _list({"$ref": "#/$defs/mesh"}),
        "checkpoint_config": {"$ref": "#/$defs/checkpoint"},
        "checkpoint_configs": _list({"$ref": "#/$defs/checkpoint"}),
        "baseline_path": _nullable(_TEXT),
        "baseline_capture_path": _nullable(_TEXT),
        "simdevice": {"$ref": "#/$defs/simdevice"},
        "benchmarks": _list({"$ref": "#/$defs/benchmark"}),
    }


def _repeats() -> Schema:
    return {
        "description": "Instead of num_repeats: until the median of each operation is known well enough",
        **_object(
            {
                "min": _POSITIVE | {"description": "Fewest repeats; num_repeats, or 6"},
                "max": _POSITIVE | {"description": "Most repeats"},
                "until": {
                    "description": "How far the interval of a median may reach to either side",
                    "default": "2%",
                    "oneOf": [
                        {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*%\s*$"},
                        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                    ],
                },
                "time_s": _seconds("No further repeat so long after the benchmark began, seconds"),
            },
            required=("max",),
        ),
    }


def target_schema() -> Schema:
    """Returns the schema of a target file."""
    from pydantic import TypeAdapter

    from tasks.config.target import TargetConfig

    return {**TypeAdapter(TargetConfig).json_schema(), "$schema": _DRAFT, "title": "slicebench target"}


def nightly_schema() -> Schema:
    """Returns the schema of a nightly."""
    from tasks.config.nightly import NightlyConfig

    return {**NightlyConfig.model_json_schema(), "$schema": _DRAFT, "title": "slicebench nightly"}


def acceptance_schema() -> Schema:
    """Returns the schema of an acceptance."""
    from tasks.config.acceptance import AcceptanceConfig

    return {**AcceptanceConfig.model_json_schema(), "$schema": _DRAFT, "title": "slicebench acceptance"}


def environment_schema() -> Schema:
    """Returns the schema of an environment."""
    from tasks.config.environment import EnvironmentConfig

    return {**EnvironmentConfig.model_json_schema(), "$schema": _DRAFT, "title": "slicebench environment"}


def _object(properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items, "minItems": 1}


def _nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _seconds(description: str) -> Schema:
    return {"type": "number", "exclusiveMinimum": 0, "description": description}


def _not_both(one: str, other: str) -> Schema:
    return {"not": {"required": [one, other]}}


def _mesh() -> Schema:
    sizes: Schema = {"type": "object", "additionalProperties": _POSITIVE}
    return _object(
        {
            "mesh_axes": _list(_TEXT) | {"uniqueItems": True, "description": "Names of the axes, in order"},
            "ici_parallelism": sizes | {"description": "Size of each axis within a slice; 1 when not named"},
            "dcn_parallelism": _nullable(sizes | {"description": "Size of each axis across slices"}),
            "allow_split_physical_axes": {"type": "boolean", "default": False},
            "process_is_granule": {"type": "boolean", "default": False},
        },
        required=("mesh_axes",),
    )


def _checkpoint() -> Schema:
    properties: Schema = {
        "spec": _nullable({"$ref": "#/$defs/tree"}) | {"description": "Data to make"},
        "path": _nullable(_TEXT) | {"description": "Checkpoint to read instead"},
        "random_seed": {"type": "integer", "minimum": 0, "maximum": 2**32 - 1, "default": 0},
        "sharding_config_path": _nullable(_TEXT) | {"description": "How the checkpoint of path is laid out"},
        "load_with_colocated_python": {"type": "boolean", "default": False},
    }
    return _object(properties)


def _tree() -> Schema:
    leaf: Schema = {"anyOf": [{"enum": ["int", "str"]}, {"$ref": "#/$defs/array"}, {"$ref": "#/$defs/tree"}]}
    not_array: Schema = {
        "not": {
            "anyOf": [{"type": "object", "properties": {"dtype": {"type": "string"}}, "required": ["dtype"]}]
        }
    }
    return {"type": "object", "additionalProperties": leaf, **not_array}


def _array() -> Schema:
    axis: Schema = {"anyOf": [_TEXT, {"type": "null"}, {"type": "array", "items": _TEXT}]}
    return _object(
        {
            "dtype": {"enum": list(DTYPES)},
            "shape": {"type": "array", "items": _POSITIVE},
            "sharding": _nullable({"type": "array", "items": axis})
            | {"description": "For each dimension the mesh axis, or axes, that split it; null: not split"},
        },
        required=("dtype", "shape"),
    )


def _simdevice() -> Schema:
    seed: Schema = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}
    topology: Schema = {"type": "array", "items": _POSITIVE, "minItems": 3, "maxItems": 3}
    return _object(
        {
            "device_type": _TEXT,
            "topology": topology,
            "num_processes": _POSITIVE,
            "fabricated_fill_seed": _nullable(seed),
        },
        required=("device_type", "topology"),
    )


def _benchmark() -> Schema:
    """An item of `benchmarks`. The options are those of the class that `generator` names, when it is known."""
    item = _object(
        {
            "generator": {
                "anyOf": [
                    {"enum": list(known_names())},
                    {"type": "string", "pattern": r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$"},
                ],
                "description": "Dotted path of the benchmark class",
            },
            "options": {
                "type": "object",
                "description": "One value each, or a list of values to try in turn",
            },
            "implementation": {
                "enum": ["native", "orbax"],
                "description": "Force slicebench's class or Orbax's",
            },
            "deadline_s": _seconds("Longest time for this benchmark, seconds"),
            "disruption": {"$ref": "#/$defs/disruption"},
        },
        required=("generator", "options"),
    )
    return item | {"allOf": [_when(generator) for generator in GENERATORS.values()]}


def _disruption() -> Schema:
    number: Schema = {"type": "integer", "minimum": 0}
    return _object(
        {
            "worker": {"anyOf": [number, {"const": ALL}], "default": 0, "description": "Whom to kill"},
            "at_step": number | {"description": "When the checkpoint of this step is complete"},
            "moment": {"enum": list(MOMENTS), "default": MOMENTS[0], "description": "… or has begun"},
            "after_s": _seconds("So long after the first step of each repeat began"),
            "signal": {"enum": list(SIGNALS), "default": SIGNALS[0]},
        }
    ) | {
        "description": "Kill workers once in each repeat; they must go on from the newest complete checkpoint",
        "oneOf": [{"required": ["at_step"]}, {"required": ["after_s"]}],
        "dependentRequired": {"moment": ["at_step"]},
    }


def _when(generator: Generator) -> Schema:
    names = [name for name in (generator.name, generator.native) if name]
    required = tuple(option.name for option in generator.options if option.default == REQUIRED)
    options = _object({option.name: _option(option) for option in generator.options}, required)
    return {
        "if": {"properties": {"generator": {"enum": names}}, "required": ["generator"]},
        "then": {"properties": {"options": options}},
    }


def _option(option: Option) -> Schema:
    if option.kind == "policies":
        return _list(_policies())
    one: Schema = {"type": _JSON_TYPES[option.kind]}
    value = _nullable(one) if option.nullable else one
    default = {} if option.default == REQUIRED else {"default": option.default}
    return {"anyOf": [value, _list(value) | {"uniqueItems": True}], **default}


def _policies() -> Schema:
    def policy(group: str) -> Schema:
        keys: Schema = {key: {} for key in POLICY_KEYS[group]}
        return _list(_object(keys | {"policy_type": {"enum": list(POLICY_TYPES[group])}}, ("policy_type",)))

    groups = {group: policy(group) for group in POLICY_KEYS}
    return _object(groups | {"expected_preserve_checkpoints": {}}, tuple(groups))
