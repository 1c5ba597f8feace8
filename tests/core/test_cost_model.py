from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.core.call import Call
from busbw.core.cost_form import Overlap
from busbw.core.cost_model import CostModel, Curve, Law, Piece, Scaling
from busbw.errors import FileError, UsageError

GBPS = 1e-9  # seconds a byte at 1 GB/s


def piece(least: int, most: int, launch_s: float, s_per_byte: float, scatter: float = 0.01) -> Piece:
    form = Overlap(launch_s, s_per_byte)
    k = len(form.parameters)
    covariance = tuple(tuple(1e-4 if i == j else 0.0 for j in range(k)) for i in range(k))
    return Piece(least, most, 8, form, scatter, 10.0, covariance)


def curve(n: int = 8, launch_s: float = 20e-6, rate: float = GBPS / 10, **settings: str) -> Curve:
    whole = piece(1024, 2**30, launch_s, rate)
    return Curve("all_reduce", n, settings, (whole,), (whole,), (whole,))


def test_a_price_by_hand() -> None:
    """20 us of launch, 10 GB/s: 1 MB takes 20 + 100 us."""
    estimate = CostModel((curve(),)).estimate(Call("all_reduce", 1_000_000, 8))
    assert estimate.seconds == pytest.approx(120e-6)
    assert estimate.bandwidth_s == pytest.approx(100e-6)
    assert estimate.latency_s == pytest.approx(20e-6)
    assert estimate.extrapolates == ()
    # scatter 1 %, and 1 % of each parameter weighted by its share (1/6, 5/6); t of 10 degrees is 2.228
    width = 2.228 * (1e-4 + 1e-4 * (1 / 36 + 25 / 36)) ** 0.5
    assert estimate.high / estimate.seconds - 1 == pytest.approx(width, rel=0.02)
    assert 1 - estimate.low / estimate.seconds == pytest.approx(width, rel=0.04)


def test_beyond_the_sizes_it_says_so_and_its_interval_widens() -> None:
    model = CostModel((curve(),))
    inside, above, below = (model.estimate(Call("all_reduce", size, 8)) for size in (2**30, 2**34, 8))
    assert inside.extrapolates == ()
    assert above.extrapolates == ("S is above the largest measured size, 1 GiB",)
    assert below.extrapolates == ("S is below the smallest measured size, 1 KiB",)
    assert above.seconds == pytest.approx(2**34 * GBPS / 10 + 20e-6)
    assert below.seconds == pytest.approx(20e-6, rel=1e-3)


def test_between_two_n_and_beyond_them() -> None:
    """N = 4 lies midway between 2 and 8 in log N: the geometric mean. N = 16: launch by 2 us a step, wire by f(N)."""
    two, eight = curve(2, 10e-6, GBPS / 10), curve(8, 40e-6, GBPS / 10)
    scaling = Scaling("all_reduce", {}, (Law("steps", 26e-6, 2e-6),), (Law("constant", 1.0, 0.0),))
    model = CostModel((two, eight), (scaling,))
    middle = model.estimate(Call("all_reduce", 0, 4))
    assert middle.seconds == pytest.approx(20e-6)
    assert "between N = 2 and 8" in middle.extrapolates[0]
    assert middle.low < 10e-6
    assert middle.high > 40e-6
    far = model.estimate(Call("all_reduce", 0, 16))
    assert far.seconds == pytest.approx(40e-6 * (26 + 30) / (26 + 14))
    large = model.estimate(Call("all_reduce", 2**30, 16))
    assert large.bandwidth_s == pytest.approx(2**30 * GBPS / 10 * (15 / 16) / (7 / 8), rel=1e-6)
    assert "scaled from N = 8" in large.extrapolates[0]


def test_one_rank_pays_nothing_and_it_says_so() -> None:
    estimate = CostModel((curve(),)).estimate(Call("all_reduce", 2**20, 1))
    assert estimate.seconds == 0
    assert "N = 1" in estimate.extrapolates[0]


def test_the_settings_that_fit_a_call_are_taken_and_others_named() -> None:
    fast, slow = curve(8, rate=GBPS / 20, dtype="bfloat16"), curve(8, rate=GBPS / 10, dtype="float32")
    model = CostModel((slow, fast))
    assert model.estimate(Call("all_reduce", 2**30, 8, "bfloat16")).bandwidth_s == pytest.approx(2**30 * GBPS / 20)
    assert model.estimate(Call("all_reduce", 2**30, 8, "float32")).bandwidth_s == pytest.approx(2**30 * GBPS / 10)
    assert "not int8" in model.estimate(Call("all_reduce", 2**30, 8, "int8")).extrapolates[0]
    assert model.select(dtype="float32").curves == (slow,)
    with pytest.raises(UsageError, match="the settings of this model are dtype=bfloat16, dtype=float32"):
        model.select(dtype="int8")


def test_an_unknown_collective_names_those_that_are_known() -> None:
    with pytest.raises(UsageError, match="no broadcast: it knows all_reduce"):
        CostModel((curve(),)).seconds(Call("broadcast", 8, 8))


def test_time_never_falls_where_pieces_overlap() -> None:
    """The first piece ends at 30 us, the second begins at 20: both go to their middle, sqrt(600) us."""
    first, second = piece(1024, 4096, 30e-6, 0.0), piece(8192, 2**20, 20e-6, GBPS / 10**6)
    both = Curve("all_reduce", 8, {}, (first, second), (first, second), (second,))
    times = [both.at(size)[0] for size in (0, 1024, 4096, 5000, 8192, 2**20, 2**30)]
    assert times == sorted(times)
    assert both.at(4096)[0] == pytest.approx(600**0.5 * 1e-6, rel=1e-4)
    assert both.at(8192)[0] == pytest.approx(600**0.5 * 1e-6, rel=1e-4)


def test_a_fall_that_was_measured_is_kept() -> None:
    first, second = piece(1024, 4096, 30e-6, 0.0), piece(8192, 2**20, 20e-6, 0.0)
    both = Curve("all_reduce", 8, {}, (first, second), (first, second), (second,), falls=(4096,))
    assert both.at(4096)[0] == pytest.approx(30e-6)
    assert both.at(8192)[0] == pytest.approx(20e-6)
    seconds, low, high = both.at(5793)  # midway: the switch may lie on either side
    assert 20e-6 < seconds < 30e-6
    assert low < 20e-6
    assert high > 30e-6


def model() -> CostModel:
    scaling = Scaling("all_reduce", {"dtype": "bfloat16"}, (Law("log2", 1e-6, 2e-6),), (Law("constant", 1e-10, 0.0),))
    return CostModel((curve(2, dtype="bfloat16"), curve(8, dtype="bfloat16")), (scaling,))


def test_saved_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    model().save(path)
    assert CostModel.load(path) == model()


def test_a_file_of_the_first_format_still_loads(golden: Path) -> None:
    loaded = CostModel.load(golden / "cost_model_1.json")
    assert loaded == model()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "not a cost model"),
        ("{", "not a cost model"),
        ('{"type": "run", "format": 1}', "a 'run', not a cost model"),
        ('{"type": "cost_model", "format": 2, "curves": []}', "format 2 is newer than 1, known here: upgrade busbw"),
        ('{"type": "cost_model", "format": 1, "curves": [{}]}', "not a cost model"),
    ],
)
def test_what_cannot_be_loaded_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(FileError, match=message) as raised:
        CostModel.load(path)
    assert str(path) in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read"):
        CostModel.load(tmp_path / "none.json")


def test_a_curve_whose_sizes_are_out_of_order_is_refused() -> None:
    data = json.loads(json.dumps(model().to_json()))
    data["curves"][0]["pieces"][0]["least_bytes"] = 2**40
    with pytest.raises(ValueError, match="in the order of their sizes"):
        CostModel.from_json(data)
