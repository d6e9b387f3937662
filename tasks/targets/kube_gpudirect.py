"""GPUDirect on GKE: what pods need so that GPUs of several hosts reach each other past the processors.

Source: GKE's guides to GPU networking, 2026, one for each machine series; xpk does the same. TCPX is that of A3 High,
TCPXO that of A3 Mega, RDMA that of A3 Ultra, A4 and A4X.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tasks.config.accelerators import GpuDirect
from tasks.targets.kube_submission import Object, Parts, literal

if TYPE_CHECKING:
    from tasks.config.gke_target import GkeTargetConfig

_TCPX_DAEMON = "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpx/tcpgpudmarxd-dev:v2.0.11"
_TCPXO_DAEMON = "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/tcpgpudmarxd-dev:v1.0.12"
_NVIDIA = "/home/kubernetes/bin/nvidia"
_LIBRARIES = "/usr/local/nvidia/lib64"


def parts(config: GkeTargetConfig) -> Parts:
    """Returns what the pods of several hosts need; nothing where one host is enough, or TCP was asked for."""
    direct, networks = config.shape.gpu_direct, config.gpu_networks
    if direct is None or not networks:
        return Parts()
    made = {"tcpx": _tcpx, "tcpxo": _tcpxo, "rdma": _rdma}[direct](config.shape.chips_per_host)
    made.annotations |= _interfaces(networks)
    made.env["USE_GPUDIRECT"] = _as_told(direct)
    return made


def _as_told(direct: GpuDirect) -> str:
    return str(direct)


def _interfaces(networks: Sequence[str]) -> dict[str, str]:
    """Gives a pod an interface on each network; eth0 stays the cluster's own."""
    interfaces = [{"interfaceName": "eth0", "network": "default"}]
    interfaces += [
        {"interfaceName": f"eth{number}", "network": network}
        for number, network in enumerate(networks, start=1)
    ]
    return {
        "networking.gke.io/default-interface": "eth0",
        "networking.gke.io/interfaces": json.dumps(interfaces),
    }


def _tcpx(gpus: int) -> Parts:
    daemon = _daemon(
        "tcpx-daemon",
        _TCPX_DAEMON,
        command=[
            "/tcpgpudmarxd/build/app/tcpgpudmarxd", "--gpu_nic_preset", "a3vm", "--gpu_shmem_type", "fd",
            "--uds_path", "/run/tcpx", "--setup_param", "--verbose 128 2 0",
        ],
        capabilities=["NET_ADMIN"],
        mounts={"libraries": _LIBRARIES, "tcpx-socket": "/run/tcpx"},
    )  # fmt: skip
    return Parts(
        env={"LD_LIBRARY_PATH": _LIBRARIES},
        mounts=_mounts({"libraries": _LIBRARIES, "tcpx-socket": "/tmp"}),
        volumes=[
            *_host_paths({"libraries": f"{_NVIDIA}/lib64", "sys": "/sys", "proc-sys": "/proc/sys"}),
            {"name": "tcpx-socket", "emptyDir": {"sizeLimit": "1Gi"}},
        ],
        sidecars=[daemon],
        annotations={"devices.gke.io/container.tcpx-daemon": _devices(gpus)},
    )


def _tcpxo(gpus: int) -> Parts:
    daemon = _daemon(
        "tcpxo-daemon",
        _TCPXO_DAEMON,
        command=[
            "/bin/sh", "-c",
            "chmod 755 /fts/entrypoint_rxdm_container.sh && exec /fts/entrypoint_rxdm_container.sh "
            "--num_hops=2 --num_nics=8 --uid= --alsologtostderr",
        ],
        capabilities=["NET_ADMIN", "NET_BIND_SERVICE"],
        mounts={"libraries": "/usr/local/nvidia"},
    )  # fmt: skip
    aperture = "/dev/aperture_devices"
    return Parts(
        env={"LD_LIBRARY_PATH": _LIBRARIES, "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": aperture},
        mounts=_mounts({"libraries": "/usr/local/nvidia", "aperture-devices": aperture}),
        volumes=_host_paths(
            {"libraries": _NVIDIA, "sys": "/sys", "proc-sys": "/proc/sys", "aperture-devices": aperture}
        ),
        sidecars=[daemon],
        annotations={"devices.gke.io/container.tcpxo-daemon": _devices(gpus, "/dev/dmabuf_import_helper")},
    )


def _rdma(gpus: int) -> Parts:
    places = {"library-dir-host": "/usr/local/nvidia", "gib": "/usr/local/gib"}
    return Parts(
        env={"LD_LIBRARY_PATH": _LIBRARIES},
        mounts=_mounts(places),
        volumes=_host_paths({"library-dir-host": _NVIDIA, "gib": "/home/kubernetes/bin/gib"}),
    )


def _daemon(
    name: str, image: str, *, command: Sequence[str], capabilities: Sequence[str], mounts: Mapping[str, str]
) -> Object:
    """Returns a container that runs beside the workers, started before them and ended after."""
    return {
        "name": name,
        "image": image,
        "restartPolicy": "Always",
        "command": [literal(word) for word in command],
        "env": [{"name": "LD_LIBRARY_PATH", "value": _LIBRARIES}],
        "securityContext": {"capabilities": {"add": list(capabilities)}},
        "volumeMounts": _mounts({**mounts, "sys": "/hostsysfs", "proc-sys": "/hostprocsysfs"}),
    }


def _devices(gpus: int, *more: str) -> str:
    paths = [*(f"/dev/nvidia{number}" for number in range(gpus)), "/dev/nvidiactl", "/dev/nvidia-uvm", *more]
    return "".join(f"- path: {path}\n" for path in paths)


def _mounts(places: Mapping[str, str]) -> list[Object]:
    return [{"name": name, "mountPath": path} for name, path in places.items()]


def _host_paths(paths: Mapping[str, str]) -> list[Object]:
    return [{"name": name, "hostPath": {"path": path}} for name, path in paths.items()]
