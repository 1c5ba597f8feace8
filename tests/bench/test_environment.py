from __future__ import annotations

import json

from busbw.bench.environment import environment, variables


def test_only_allowed_variables_are_kept_and_never_a_secret() -> None:
    environ = {
        "NCCL_ALGO": "Ring",
        "GLOO_SOCKET_IFNAME": "lo",
        "CUDA_VISIBLE_DEVICES": "0",
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "HOME": "/home/someone",
        "UCX_AUTH_TOKEN": "hidden",
    }
    assert variables(environ) == {"CUDA_VISIBLE_DEVICES": "0", "GLOO_SOCKET_IFNAME": "lo", "NCCL_ALGO": "Ring"}


def test_the_environment_is_plain_data_and_holds_no_other_variable() -> None:
    text = json.dumps(environment({"HOME": "/home/someone", "OMP_NUM_THREADS": "1"}))
    assert "/home/someone" not in text
    assert json.loads(text)["variables"] == {"OMP_NUM_THREADS": "1"}
    assert json.loads(text)["cpus"] >= 1
