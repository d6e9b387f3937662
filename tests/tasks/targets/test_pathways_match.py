"""Pathways' images against the program's image, by what that says of itself."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.image_versions import Said, said_by
from tasks.cloud.registry import Registry
from tasks.cloud.registry_wire import Wire
from tasks.cloud.timing import Timing
from tasks.config.gke_parts import Pathways
from tasks.targets.pathways_match import check_image
from tests.cloud.registry import serve_registry
from tests.cloud.registry_store import Store
from tests.tasks.cloud.test_registry import push_image
from tests.tasks.targets.kube_made import PATHWAYS

SIDECAR = {**PATHWAYS, "colocated_python_image": "r/sidecar:python_3.12-jax_0.10.0"}


@pytest.mark.parametrize(
    ("env", "labels", "said"),
    [
        ([], None, Said(None, None)),
        (["PYTHON_VERSION=3.12.1", "PATH=/bin"], {}, Said(None, "3.12.1")),
        (["JAX_VERSION=0.10.0"], {}, Said("0.10.0", None)),
        (["JAX_VERSION=0.9.0"], {"slicebench.jax": "0.10.0"}, Said("0.10.0", None)),
        (["PYTHON_VERSION=no", "JAX_VERSION=nightly", "ODD"], {"slicebench.jax": ""}, Said(None, None)),
    ],
)
def test_an_image_says_its_versions_or_that_it_does_not(env: list[str], labels: Any, said: Said) -> None:
    assert said_by({"config": {"Env": env, "Labels": labels}}) == said


def test_an_image_without_any_configuration_says_nothing() -> None:
    assert said_by({}) == Said(None, None)


@pytest.mark.parametrize(
    ("images", "env", "tag", "wrong", "told"),
    [
        (SIDECAR, ["PYTHON_VERSION=3.12.1", "JAX_VERSION=0.10.0"], "v1", [], ""),
        (SIDECAR, ["PYTHON_VERSION=3.11.9", "JAX_VERSION=0.10.0"], "v1", ["and the program Python 3.11"], ""),
        (PATHWAYS, ["PYTHON_VERSION=3.11.9", "JAX_VERSION=0.10.0"], "v1", [], ""),
        (PATHWAYS, ["PYTHON_VERSION=3.12.1"], "jax_0.9.0", ["server:jax_0.10.0 has JAX 0.10.0", "proxy"], ""),
        (PATHWAYS, [], "v1", [], "does not say its JAX nor its Python"),
    ],
)
def test_what_does_not_fit_is_refused_and_what_is_not_said_is_told(
    images: dict[str, str], env: list[str], tag: str, wrong: list[str], told: str
) -> None:
    store, said = Store(), []  # type: tuple[Store, list[str]]
    push_image(store, "mine", tag, config={"config": {"Env": env}})
    pathways = Pathways.model_validate(images)
    with serve_registry(store) as address, Registry() as registry:
        name = f"{address}/mine:{tag}"
        if not wrong:
            check_image(pathways, name, name, registry, said.append)
        else:
            with pytest.raises(BadInput) as error:
                check_image(pathways, name, name, registry, said.append)
            assert all(word in str(error.value) for word in wrong)
    assert told in "".join(said) and bool(said) == bool(told)


def test_a_registry_that_does_not_answer_is_told_and_holds_up_nothing() -> None:
    said: list[str] = []
    with Registry(Wire(Timing(try_s=1.0, total_s=0.5, first_pause_s=0.01))) as registry:
        check_image(Pathways.model_validate(PATHWAYS), "127.0.0.1:1/x:1", "x:1", registry, said.append)
    assert "x:1 is not compared with the images of Pathways" in said[0]
