"""What a run of nccl-tests was asked for: its settings line, and the NCCL variables that a log sets.

Environments hold secrets: only variables of a fixed list are ever copied.
"""

from __future__ import annotations

import re

SETTINGS_LINE = re.compile(r"\bnThreads?\s+(\d+)\s+nGpus\s+(\d+)\s+minBytes\s+(\d+)\s+maxBytes\s+(\d+)")
_STEP = re.compile(r"step:\s*(\d+)\((factor|bytes)\)")
_COUNTS = re.compile(r"\b(warmup iters|agg iters|iters|validation|graph|unalign):\s*(\d+)")

VARIABLES = (
    *("NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS"),
    *("NCCL_NTHREADS", "NCCL_BUFFSIZE", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"),
    *("NCCL_IB_HCA", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_SPLIT_DATA_ON_QPS", "NCCL_IB_TC", "NCCL_IB_GID_INDEX"),
    *("NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_CROSS_NIC", "NCCL_COLLNET_ENABLE", "NCCL_NVLS_ENABLE"),
    *("NCCL_SOCKET_IFNAME", "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD", "NCCL_NET", "NCCL_NET_PLUGIN"),
    *("NCCL_MNNVL_ENABLE", "NCCL_PXN_DISABLE", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_NCHANNELS_PER_NET_PEER"),
    *("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_LAUNCH_MODE"),
    *("NCCL_IGNORE_CPU_AFFINITY",),
    *("NCCL_CUMEM_ENABLE", "NCCL_RUNTIME_CONNECT", "NCCL_TESTS_SPLIT_MASK", "RCCL_MSCCL_ENABLE", "RCCL_MSCCLPP_ENABLE"),
    *("HSA_NO_SCRATCH_RECLAIM", "FI_PROVIDER", "FI_EFA_USE_DEVICE_RDMA", "CUDA_DEVICE_MAX_CONNECTIONS"),
)
"""The variables that are copied from a log or from the JSON's environment."""
_SILENT = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE"}
COMPARED = frozenset(VARIABLES) - _SILENT
"""Of these, the ones that change what is measured: they become labels of the rows."""
_ASSIGNMENT = re.compile(rf"\b({'|'.join(VARIABLES)})=(\"[^\"]*\"|'[^']*'|[^\s;]*)")

_NAMES = {"warmup iters": "warmup_iters", "agg iters": "agg_iters"}


def read_settings(text: str) -> dict[str, object]:
    """The numbers of the line "nThread 1 nGpus 8 minBytes 8 maxBytes ...", by name."""
    match = SETTINGS_LINE.search(text)
    if match is None:
        return {}
    names = ("threads", "gpus_per_thread", "min_bytes", "max_bytes")
    found: dict[str, object] = {name: int(value[:20]) for name, value in zip(names, match.groups(), strict=True)}
    step = _STEP.search(text)
    if step is not None:
        found[f"step_{step[2]}"] = int(step[1][:20])
    for name, value in _COUNTS.findall(text):
        found[_NAMES.get(name, name)] = int(value[:20])
    return found


def read_assignments(text: str) -> dict[str, str]:
    """NAME=value pairs of the listed variables on a command line or in a shell's trace."""
    return {name: value.strip("\"'")[:80] for name, value in _ASSIGNMENT.findall(text[:8000])}
