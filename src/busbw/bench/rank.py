"""One rank of a run: joins, is told what to measure, takes the rows, and hands them to the supervisor.

`python -m busbw.bench.rank` is what the launch of local ranks starts; under a launcher the command line calls `main`.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import traceback
from typing import Any

from busbw.bench import processes
from busbw.bench.backends.base import Backend, Group, Progress, Seat
from busbw.bench.launchers import Placement, find_placement
from busbw.bench.link import Link
from busbw.bench.settings import Settings
from busbw.bench.wire import Address
from busbw.bench.work import SCHEDULE_LABEL, Item, split_groups, work_list
from busbw.errors import BusbwError, LaunchError, RankMismatch, UsageError

MOST_RAW_RANKS = 64
"""Beyond this many ranks a row keeps quantiles and who was slowest, not every rank's samples."""

ADDRESS_VARIABLE = "BUSBW_SUPERVISOR"
PARENT_VARIABLE = "BUSBW_PARENT"


def make_backend(name: str, options: str = "") -> Backend:
    """The backend of a name; the libraries that it needs are imported now."""
    if name == "fake":
        from busbw.bench.backends.fake import FakeBackend

        return FakeBackend(name, options)
    if name == "mpi":
        from busbw.bench.backends.mpi import MpiBackend

        return MpiBackend(name, options)
    from busbw.bench.backends.torch_distributed import TorchBackend, choose_backend

    return TorchBackend(choose_backend() if name == "auto" else name, options)


def main(
    placement: Placement,
    address: Address,
    digest: str = "",
) -> int:
    """Run this rank to its end; returns the exit status of the run."""
    progress = Progress()
    link = Link(address, progress, timeout_s=120.0)
    link.say(
        "hello",
        token=address.token,
        rank=placement.rank,
        world_size=placement.world_size,
        host=socket.gethostname(),
        pid=os.getpid(),
        digest=digest,
    )
    told = link.first_word()
    settings = Settings.from_json(told["settings"])
    try:
        processes.set_policy(settings.sched)
        link.start()
        _run(link, placement, settings, told, progress)
    except LaunchError as error:
        link.fail(f"rank {placement.rank} on {socket.gethostname()}: {error}", "launch")
    except RankMismatch as error:
        link.fail(str(error), "mismatch")
    except BusbwError as error:
        link.fail(str(error), "usage")
    except Exception as error:
        if os.environ.get("BUSBW_TRACEBACK"):
            traceback.print_exc()
        link.fail(f"{type(error).__name__}: {' '.join(str(error).split())[:500]}", "backend")
    return link.finish()


def _run(link: Link, placement: Placement, settings: Settings, told: dict[str, Any], progress: Progress) -> None:
    backend = make_backend(settings.backend, settings.loop if settings.backend == "mpi" else settings.fake)
    seat = Seat(
        placement.rank,
        placement.world_size,
        placement.local_rank,
        placement.local_world_size,
        link.publish,
        link.look_up,
        link.gather,
    )
    device = backend.locate(seat)
    link.say("located", device={"name": device.name, "identity": device.identity})
    link.wait_for("go")
    backend.start(seat, settings.init_timeout_s)
    from busbw.bench.row import RowTaker

    groups = backend.make_groups(split_groups(settings.split, placement.world_size))
    memory = -int(backend.gather([-float(backend.free_bytes())]).max())
    plans = [work_list(settings, group.size, backend.supports, memory, backend.supports_schedule) for group in groups]
    if len({len(plan.items) for plan in plans}) > 1:
        raise UsageError(
            f"--split {settings.split}: its groups differ in size so that they have different rows to take"
        )
    done = set(told["skip"])
    rows = [
        row
        for row in zip(*(plan.items for plan in plans), strict=True)
        if not all(row_key(item, group, settings) in done for item, group in zip(row, groups, strict=True))
    ]
    if not rows and not plans[0].items:
        notes = "; ".join(dict.fromkeys(note for plan in plans for note in plan.notes))
        raise UsageError(f"nothing to measure: {notes or 'no collective and no size is left'}")
    taker = RowTaker(backend, settings, groups, progress)
    if placement.rank == 0:
        link.say(
            "plan",
            labels=[row[0].key for row in rows],
            notes=list(dict.fromkeys(note for plan in plans for note in plan.notes)) + _notes(backend),
        )
    began = time.monotonic()
    for index, row in enumerate(rows):
        budget_s = settings.row_budget_s
        if told["budget_s"] is not None:
            left = float(told["budget_s"]) - float(backend.gather([time.monotonic() - began])[0, 0])
            budget_s = max(left, 0.0) / (len(rows) - index)
        _take(link, taker, backend, settings, index, row, budget_s)
    taker.close()
    progress.phase = "end"
    backend.barrier()
    backend.close()


def row_key(item: Item, group: Group, settings: Settings) -> str:
    """The key of a row on disk: the call, and the group where there are several."""
    return item.key if settings.split is None else f"{item.key} group {group_label(group)}"


def group_label(group: Group) -> str:
    """The ranks of a group as text, `0-3` or `0,2,4`."""
    ranks = group.ranks
    if len(ranks) > 1 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}-{ranks[-1]}"
    return ",".join(map(str, ranks))


def _notes(backend: Backend) -> list[str]:
    warning = backend.warning()
    return [] if warning is None else [warning]


def _take(
    link: Link,
    taker: Any,
    backend: Backend,
    settings: Settings,
    index: int,
    row: tuple[Item, ...],
    budget_s: float,
) -> None:
    """Take one row and, on the first rank of each group, report it."""
    from busbw.bench.statistics import summarise

    group: Group = taker.group
    item = row[group.index]
    taken = taker.take(index, item, budget_s)
    if group.rank != 0:
        return
    summary = summarise(taken.per_rank_s, settings.rank_time, stopped=taken.stopped, calls_s=taken.calls_s)
    raw = taken.per_rank_s.tolist() if group.size <= MOST_RAW_RANKS else None
    labels = {"backend": backend.name, **backend.versions(), "mode": settings.mode, "rank_time": settings.rank_time}
    labels["sched"] = settings.sched
    special = {
        "cuda_graph": settings.cuda_graph,
        "rotate_buffers": settings.rotate_buffers,
        "agg_iters": settings.aggregate if settings.aggregate > 1 else 0,
        "local_register": settings.register,
    }
    labels |= {name: str(value) for name, value in special.items() if value}
    if item.schedule is not None:
        labels[SCHEDULE_LABEL] = item.algorithm
        if "loop" in labels:
            labels["loop"] = "python"
    if taken.beside is not None:
        labels["beside"] = taken.beside.what
    if settings.method != "busbw":
        labels["method"] = settings.method
    if settings.split is not None:
        labels["group"] = group_label(group)
        labels["world"] = str(backend.world_size)
    link.say(
        "row",
        index=index,
        group=group.index,
        groups=len(taker.groups),
        call=item.call.to_json(),
        summary=summary.to_json(),
        calls_per_sample=taken.calls_per_sample,
        per_rank_s=raw,
        wrong=taken.wrong,
        warmup_calls=taken.warmup_calls,
        precision=taker.precision,
        is_gpu=backend.is_gpu,
        beside=None if taken.beside is None else taken.beside.to_json(),
        labels=labels,
    )


def _start_as_child() -> int:
    """The entry of a rank that `busbw bench` has started: its place is in the environment."""
    processes.die_with_parent()
    parent = os.environ.get(PARENT_VARIABLE, "")
    if parent and parent != str(os.getppid()):
        return 3  # the parent ended before the line above
    placement = find_placement()
    if placement is None:
        sys.stderr.write("busbw.bench.rank is started by busbw bench, not by hand\n")
        return 2
    return main(placement, Address.from_text(os.environ[ADDRESS_VARIABLE]))


if __name__ == "__main__":
    status = _start_as_child()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
