from __future__ import annotations

from busbw.core.call import Call
from busbw.core.measurement import Measurement
from busbw.costs.points import group_points


def row(size: int, time_s: float, n: int = 2, place: bool | None = None, **labels: str) -> Measurement:
    return Measurement(Call("all_reduce", size, n, "float32", in_place=place), time_s, labels=labels)


def test_each_collective_n_and_settings_is_a_group_and_a_size_takes_its_median() -> None:
    rows = [row(8, 1.0), row(8, 3.0), row(8, 2.0), row(16, 4.0), row(8, 5.0, n=4), row(8, 6.0, place=True)]
    groups = group_points(rows)
    assert [(group.world_size, group.settings, group.sizes, group.seconds, group.rows) for group in groups] == [
        (2, {"dtype": "float32"}, (8, 16), (2.0, 4.0), 4),
        (4, {"dtype": "float32"}, (8,), (5.0,), 1),
        (2, {"dtype": "float32", "place": "in"}, (8,), (6.0,), 1),
    ]


def test_what_says_nothing_of_moving_bytes_is_left_out() -> None:
    rows = [row(0, 1.0), row(8, 1.0, n=1), row(8, 0.0), Measurement(Call("barrier", 0, 2), 1.0)]
    (group,) = group_points(rows)
    assert (group.collective, group.sizes) == ("barrier", (0,))


def test_an_algorithm_that_the_library_chose_by_size_does_not_part_a_curve() -> None:
    chosen = [row(8, 1.0, algorithm="Tree"), row(16, 2.0, algorithm="Ring")]
    (group,) = group_points(chosen)
    assert (group.sizes, group.settings) == ((8, 16), {"dtype": "float32"})


def test_an_algorithm_that_was_forced_does() -> None:
    forced = [row(size, 1.0, algorithm=name) for name in ("Tree", "Ring") for size in (8, 16)]
    assert [group.settings["algorithm"] for group in group_points(forced)] == ["Tree", "Ring"]
