"""Lays devices out as a suite's mesh says, by the same rules as Orbax's own benchmarks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import numpy as np

from runtime.contract.suite import MeshSpec


def make_mesh(spec: MeshSpec, devices: Sequence[jax.Device] | None = None) -> jax.sharding.Mesh:
    """Returns the mesh of all devices that `spec` describes.

    Without `dcn_parallelism` the mesh lies within one slice and JAX chooses the order of devices. With it,
    each axis has ici times dcn devices: on CPU in order of process, so that processes stand for slices;
    elsewhere JAX places the dcn part across slices, or across processes when `process_is_granule`.

    Raises:
      ValueError: the mesh does not fit the devices; the message says why.
    """
    devices = list(jax.devices() if devices is None else devices)
    ici = [spec.ici_parallelism.get(axis, 1) for axis in spec.mesh_axes]
    if spec.dcn_parallelism is None:
        return jax.sharding.Mesh(_within_one_slice(ici, devices), spec.mesh_axes)
    dcn = [spec.dcn_parallelism.get(axis, 1) for axis in spec.mesh_axes]
    if devices[0].platform == "cpu":
        return jax.sharding.Mesh(_in_order_of_process(ici, dcn, devices), spec.mesh_axes)
    return jax.sharding.Mesh(_across_slices(spec, ici, dcn, devices), spec.mesh_axes)


def _within_one_slice(ici: Sequence[int], devices: Sequence[jax.Device]) -> np.ndarray:
    from jax.experimental import mesh_utils

    needed = math.prod(ici)
    if needed != len(devices):
        raise ValueError(f"it needs {needed} devices ({_times(ici)}) and there are {len(devices)}")
    return mesh_utils.create_device_mesh(ici, devices)


def _in_order_of_process(ici: Sequence[int], dcn: Sequence[int], devices: Sequence[jax.Device]) -> np.ndarray:
    shape = [within * across for within, across in zip(ici, dcn, strict=True)]
    if math.prod(shape) != len(devices):
        raise ValueError(
            f"it needs {math.prod(shape)} devices ({_times(ici)} within times {_times(dcn)} across slices)"
            f" and there are {len(devices)}"
        )
    return np.array(sorted(devices, key=lambda device: device.process_index)).reshape(shape)


def _across_slices(
    spec: MeshSpec, ici: Sequence[int], dcn: Sequence[int], devices: Sequence[jax.Device]
) -> np.ndarray:
    from jax.experimental import mesh_utils

    granule = "process" if spec.process_is_granule else "slice"
    granules = len({_granule(device, spec.process_is_granule) for device in devices})
    if math.prod(dcn) != granules:
        raise ValueError(
            f"dcn_parallelism spans {math.prod(dcn)} {granule}s ({_times(dcn)}) and there are {granules}"
        )
    if len(devices) % granules:
        raise ValueError(f"{len(devices)} devices do not divide evenly among {granules} {granule}s")
    if math.prod(ici) != len(devices) // granules:
        raise ValueError(
            f"ici_parallelism needs {math.prod(ici)} devices in each {granule} ({_times(ici)})"
            f" and there are {len(devices) // granules}"
        )
    return mesh_utils.create_hybrid_device_mesh(
        ici,
        dcn,
        devices,
        process_is_granule=spec.process_is_granule,
        allow_split_physical_axes=spec.allow_split_physical_axes,
    )


def _granule(device: jax.Device, process_is_granule: bool) -> int:
    if process_is_granule:
        return int(device.process_index)
    return int(getattr(device, "slice_index", 0))


def _times(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes)) or "1"
