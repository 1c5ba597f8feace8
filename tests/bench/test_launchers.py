from __future__ import annotations

import pytest

from busbw.bench.launchers import Placement, find_placement
from busbw.errors import LaunchError

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
SLURM = {
    "SLURM_PROCID": "5",
    "SLURM_STEP_NUM_TASKS": "10",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2),2",
}


def test_nobody_started_us() -> None:
    assert find_placement({}) is None


@pytest.mark.parametrize(
    ("environ", "placement"),
    [
        (TORCHRUN, Placement("torchrun", 5, 8, 1, 4)),
        (HYDRA, Placement("mpiexec", 1, 2, 1, 2)),
        (OPEN_MPI, Placement("Open MPI", 3, 4, 1, 2)),
        (SLURM, Placement("srun", 5, 10, 1, 4)),
        ({**SLURM, **TORCHRUN}, Placement("torchrun", 5, 8, 1, 4)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, Placement("torchrun", 1, 2, 1, 2)),
    ],
)
def test_what_each_launcher_leaves(environ: dict[str, str], placement: Placement) -> None:
    assert find_placement(environ) == placement


def test_a_batch_script_of_slurm_is_no_rank() -> None:
    assert find_placement({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}) is None


@pytest.mark.parametrize(
    "environ",
    [
        {"RANK": "x", "WORLD_SIZE": "2"},
        {"RANK": "2", "WORLD_SIZE": "2"},
        {**HYDRA, "MPI_LOCALRANKID": "2"},
        {"PMI_RANK": "", "PMI_SIZE": "2"},
    ],
)
def test_a_place_that_contradicts_itself_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(LaunchError):
        find_placement(environ)


def test_a_launcher_that_left_no_place_is_a_split_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbw.bench.launchers._parent_name", lambda: "mpiexec")
    with pytest.raises(LaunchError, match="split world"):
        find_placement({})
