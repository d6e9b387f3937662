"""How the options of Orbax's v1 interface become its settings."""

from __future__ import annotations

from orbax.checkpoint import v1 as ocp

from runtime.contract.options import SaveLoadOptions

GIB = 1024**3


def settings_of(options: SaveLoadOptions) -> ocp.Context:
    """Returns the settings that the options ask for."""
    settings = ocp.Context()
    saving = settings.array.saving
    saving.storage_options.chunk_byte_size = options.chunk_byte_size
    saving.use_ocdbt = options.use_ocdbt
    saving.use_zarr3 = options.use_zarr3
    saving.use_compression = options.use_compression
    saving.use_replica_parallel = options.use_replica_parallel
    saving.enable_replica_parallel_separate_folder = options.enable_replica_parallel_separate_folder
    settings.array.loading.use_load_and_broadcast = options.use_load_and_broadcast
    settings.memory.write_concurrent_bytes = bytes_of(options.save_concurrent_gb)
    settings.memory.read_concurrent_bytes = bytes_of(options.restore_concurrent_gb)
    return settings


def bytes_of(gib: int | None) -> int | None:
    """Returns GiB as bytes; None leaves the choice to Orbax."""
    return None if gib is None else gib * GIB
