"""Seconds: profiles, the timeline, buckets, suggestions, links."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from busbw.core.call import Call
from busbw.core.cost_form import Overlap
from busbw.core.measurement import Measurement
from busbw.core.plan import Model
from busbw.errors import FileError, UsageError
from busbw.formats import post_csv
from busbw.pricing import price
from busbw.pricing.buckets import best_of, bucket_curve
from busbw.pricing.links import ranks_of, sent_by_link, with_link
from busbw.pricing.mesh import make_mesh
from busbw.pricing.profile import ByLink, Rates, read_profile
from busbw.pricing.step import run_steps
from busbw.pricing.stream import Compute, Group, Wait, call, message
from busbw.pricing.suggest import suggestions
from busbw.pricing.sync import ways
from busbw.pricing.timeline import Work, play

RATES = Rates(alpha_s=1e-6, bandwidth_Bps=1e9, launch_s=10e-6)
WORLD = Group("world", (0, 1, 2, 3))


def test_a_straight_line_by_hand() -> None:
    found = RATES.estimate(Call("all_reduce", 4_000_000, 4))
    # launch 10 us + 6 steps of 1 us; 2 x 3/4 x 4 MB at 1 GB/s = 6 ms.
    assert found.latency_s == pytest.approx(16e-6)
    assert found.bandwidth_s == pytest.approx(6e-3)
    assert RATES.estimate(Call("all_gather", 4000, 4)).seconds == pytest.approx(10e-6 + 3e-6 + 3e-6)
    assert RATES.estimate(Call("send_recv_one_way", 1000, 2)).seconds == pytest.approx(12e-6)
    assert RATES.estimate(Call("all_reduce", 4, 1)).seconds == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("alpha=5us", "alpha and bandwidth are both needed"),
        ("alpha=5us,bandwidth=20", "unknown unit '' in rate '20'"),
        ("alpha=5us,bandwidth=20GB/s,beta=3", "'beta' is not a word of it"),
        ("alpha=5us,bandwidth=0GB/s", "bandwidth must be above 0"),
    ],
)
def test_what_is_wrong_with_given_rates(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read_profile(text)


def test_profiles_from_files(tmp_path: Path) -> None:
    form = Overlap(10e-6, 1.5 / 20e9)
    rows = [Measurement(Call("all_reduce", 4**k, 4), form.seconds(4**k)) for k in range(6, 16)]
    (tmp_path / "a.csv").write_text(post_csv.write(rows))
    (tmp_path / "notes.txt").write_text("not results")
    profile, words, _ = read_profile(str(tmp_path))
    assert "10 measured rows at N = 4" in words
    assert profile.estimate(Call("all_reduce", 2**28, 4)).seconds == pytest.approx(2**28 * 1.5 / 20e9, rel=0.02)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(FileError, match="no file in it holds results"):
        read_profile(str(empty))
    with pytest.raises(FileError, match="cannot be read"):
        read_profile(str(tmp_path / "none.jsonl"))


def test_a_missing_collective_borrows_a_relative(tmp_path: Path) -> None:
    rows = [Measurement(Call("all_gather", 4**k, 4), 1e-5 + 4**k / 1e9) for k in range(6, 14)]
    path = tmp_path / "a.csv"
    path.write_text(post_csv.write(rows))
    profile, _, _ = read_profile(str(path))
    found = profile.estimate(Call("all_to_all", 2**20, 4, "float32"))
    assert found.seconds == profile.estimate(Call("all_gather", 2**20, 4)).seconds
    assert "no all_to_all: priced as all_gather" in found.extrapolates[0]
    # An all-reduce sends twice as much as an all-gather of the same S.
    found = profile.estimate(Call("all_reduce", 2**20, 4, "float32", "sum"))
    assert found.seconds == profile.estimate(Call("all_gather", 2**21, 4)).seconds
    assert "no all_reduce: priced as all_gather with as many bytes on a wire" in found.extrapolates[0]
    with pytest.raises(UsageError, match="has no barrier"):
        profile.estimate(Call("barrier", 0, 4))


def test_toml(tmp_path: Path) -> None:
    pytest.importorskip("tomllib")
    path = tmp_path / "machine.toml"
    path.write_text('[profile]\nalpha = "5us"\nbandwidth = "20GB/s"\n')
    rates = read_profile(str(path))[0]
    assert isinstance(rates, Rates)
    assert (rates.alpha_s, rates.bandwidth_Bps) == (pytest.approx(5e-6), pytest.approx(20e9))
    path.write_text("alpha = ")
    with pytest.raises(FileError, match="not TOML"):
        read_profile(str(path))


# --- the timeline ---


def test_a_hidden_call_and_an_exposed_one() -> None:
    """1 s of computation hides a call of 0.6 s started at its half; a second one of 0.6 s sticks out."""
    rates = Rates(0.0, 1.0)  # all_reduce over 4 of S bytes takes 1.5 S seconds
    half = Compute("backward", "a", 50.0)
    first = call("all_reduce", WORLD, 4 * 25, "uint8", "backward", "b0", tag="x")
    events = [half, first, half, Wait("x")]
    found = play(events, Rates(0.0, 250.0), Work(step_s=1.0))
    assert found.communication_s == pytest.approx(0.6)
    assert (found.compute_s, found.exposed_s) == (pytest.approx(1.0), pytest.approx(0.1))
    assert found.step_s == pytest.approx(1.1)
    assert found.lost == pytest.approx(0.1 / 1.1)
    assert rates.estimate(first.line.call).seconds == pytest.approx(150)


def test_hidden_communication_takes_its_share_of_computation() -> None:
    half = Compute("backward", "a", 50.0)
    events = [half, call("all_reduce", WORLD, 50, "uint8", "backward", "b0", tag="x"), half, Wait("x")]
    found = play(events, Rates(0.0, 250.0), Work(step_s=1.0, contention=0.5))  # 0.3 s, all hidden
    assert (found.exposed_s, found.contention_s, found.step_s) == (0, pytest.approx(0.15), pytest.approx(1.15))


def test_calls_of_one_group_queue_and_blocking_ones_are_exposed() -> None:
    one = call("all_reduce", WORLD, 100, "uint8", "backward", "b", tag="x")
    blocking = call("all_reduce", WORLD, 100, "uint8", "optimizer", "n")
    found = play([one, one, Wait("x"), blocking], Rates(0.0, 150.0), Work(step_s=1.0))
    assert found.exposed_s == found.step_s == pytest.approx(3.0)
    assert dict(found.exposed_by) == {"world backward": pytest.approx(2.0), "world optimizer": pytest.approx(1.0)}


def test_what_the_host_issues_ahead_starts_with_the_computation_before_it() -> None:
    gather = call("all_gather", WORLD, 400, "uint8", "forward", "u", tag="g", ahead=True)  # 300 bytes at 600/s: 0.5 s
    events = [Compute("forward", "a", 1.0), gather, Wait("g"), Compute("forward", "b", 1.0)]
    assert play(events, Rates(0.0, 600.0), Work(step_s=2.0)).exposed_s == 0
    late = [Compute("forward", "a", 1.0), call("all_gather", WORLD, 400, "uint8", "forward", "u", tag="g"), Wait("g")]
    assert play(late, Rates(0.0, 600.0), Work(step_s=1.0)).exposed_s == pytest.approx(0.5)


def test_replicas_are_reduced_after_their_shards() -> None:
    """RS of 0.3 s over one group, then AR of 0.3 s over another: 0.6 s, although their wires are apart."""
    pair = Group("replicate", (0, 4))
    scatter = call("reduce_scatter", WORLD, 400, "uint8", "backward", "u", tag="reduce")  # 3/4 x 400 at 1000/s
    reduce = replace(call("all_reduce", pair, 300, "uint8", "backward", "u", tag="reduce"), follows="reduce")
    assert play([scatter, reduce, Wait("reduce")], Rates(0.0, 1000.0), Work(step_s=1.0)).step_s == pytest.approx(0.6)


def test_a_pipeline_idles() -> None:
    priced = run_steps_of("gpt2", "pp", 4, accumulate=12)
    assert priced.bubble == pytest.approx(3 / 12)
    timeline = play(priced.steps["steady"], Rates(0.0, 1e15), Work(step_s=1.0), priced.bubble)
    assert timeline.step_s == pytest.approx(1.25, rel=1e-3)


def run_steps_of(model: str, plan: str, world: int, **settings: object):  # type: ignore[no-untyped-def]
    from busbw.pricing.readers import read_model

    return run_steps(read_model(model), make_mesh(plan, world), 0, settings)


def test_computation_needs_a_rate_or_a_time(small: Model) -> None:
    with pytest.raises(UsageError, match="computation needs a rate above 0"):
        play([Compute("forward", "a", 1.0)], RATES, Work())
    with pytest.raises(UsageError, match="FLOPs are not known"):
        play([Compute("forward", "a", 0.0)], RATES, Work(step_s=1.0))


# --- buckets, ways, suggestions ---


def test_the_best_bucket_lies_between_latency_and_the_last_bucket(small: Model) -> None:
    from busbw.pricing.family import built_in

    curve = bucket_curve(built_in("gpt2-medium"), make_mesh("ddp", 8), Rates(1e-4, 20e9), Work(step_s=0.2), None)
    best = best_of(curve)
    assert curve[0].bucket_cap_mb < best.bucket_cap_mb < curve[-1].bucket_cap_mb
    assert curve[-1].buckets == 3  # the 1 GiB of the blocks and the head fill two limits of 500 MiB
    assert best.step_s is not None
    assert all(cap.step_s is not None and cap.step_s >= best.step_s for cap in curve)


def test_three_ways_to_synchronise(small: Model) -> None:
    found = {way.how: way for way in ways(small, [300, small.count - 300], 4, RATES, ["float32"])}
    single, bucketed, one = found["tensor by tensor"], found["in buckets"], found["in one call"]
    assert (single.calls, bucketed.calls, one.calls) == (21, 2, 1)
    assert single.bandwidth_s == pytest.approx(one.bandwidth_s)
    assert single.latency_s == pytest.approx(21 * 16e-6)
    assert one.seconds == pytest.approx(16e-6 + 1.5 * 4 * small.count / 1e9)


def test_suggestions_say_what_they_save() -> None:
    from busbw.pricing.family import built_in

    found = suggestions(built_in("resnet18"), make_mesh("ddp", 8), RATES, None, None)
    words = {each.change: each for each in found}
    hook = words["hook=bf16"]
    assert hook.saved_bytes_per_rank == pytest.approx(2 * 7 / 8 * 2 * 11689512, abs=8)
    assert hook.saved_s == pytest.approx(hook.saved_bytes_per_rank / 1e9, rel=1e-6)
    assert "broadcast_buffers=false" not in words  # 40 kB of 82 MB: not worth a line
    assert found == sorted(found, key=lambda each: -(each.saved_s or 0))
    slow = Rates(alpha_s=1e-3, bandwidth_Bps=1e12)  # latency is everything: two broadcasts of 7 steps count
    words = {each.change: each for each in suggestions(built_in("resnet18"), make_mesh("ddp", 8), slow, None, None)}
    assert words["broadcast_buffers=false"].saved_s == pytest.approx(14e-3, rel=0.01)


def test_muon_gathers_for_half_of_what_it_reduces() -> None:
    from busbw.pricing.family import built_in

    def exchanged(plan: str) -> int:
        lines = price(built_in("gpt2"), plan, 8).steady.lines
        return sum(line.sent_bytes_per_rank for line in lines if line.phase == "optimizer")

    matrices = 12 * 12 * 768**2
    assert exchanged("muon") == 2 * 7 * (2 * matrices) // 8
    assert exchanged("muon,sync=all_gather") < 0.7 * exchanged("muon")


def test_links_by_hosts() -> None:
    bills = price("gpt2", "dp=2,tp=4", 8, hosts=2)
    links = {line.group: line.notes["link"] for line in bills.steady.lines}
    assert links == {"tp": "inside", "dp": "across"}
    sent = sent_by_link(bills.steady.lines)
    assert sent["inside"] + sent["across"] == bills.steady.totals().sent_bytes_per_rank
    ring = price("gpt2", "ddp", 8, hosts=2)
    totals = ring.steady.totals().sent_bytes_per_rank
    assert sent_by_link(ring.steady.lines)["across"] == pytest.approx(
        totals * 2 / 8, rel=1e-6
    )  # 2 of 8 hops leave a host
    with pytest.raises(UsageError, match="--hosts 3: must divide the 8 ranks"):
        price("gpt2", "ddp", 8, hosts=3)


def test_two_profiles_by_link() -> None:
    by_link = ByLink(Rates(0.0, 100e9), Rates(0.0, 10e9), ranks_per_host=4)
    lines = price("gpt2", "dp=2,tp=4", 8, by_link).steady.lines
    for line in lines:
        rate = 100e9 if line.group == "tp" else 10e9
        n = line.call.world_size
        assert line.seconds == pytest.approx(2 * (n - 1) / n * line.call.size_bytes / rate)
    messages = price("gpt2", "pp=2,dp=4", 8, by_link, settings={"accumulate": 2}).steady.lines
    (first,) = {line.seconds for line in messages if line.call.collective == "send_recv_one_way"}
    assert first == pytest.approx(1024 * 768 * 4 / 10e9)


def test_deepspeed_sends_half_as_much_again_as_the_textbook() -> None:
    real, book = (price("gpt2", plan, 8).steady.totals().sent_bytes_per_rank for plan in ("zero1", "zero1,textbook"))
    assert real / book == pytest.approx(1.5, rel=1e-3)
    assert any("3 x 435.5 MB" in note for note in price("gpt2", "zero2", 8).notes)


def test_zero2_reduces_in_every_micro_step_and_zero1_once() -> None:
    def reduces(plan: str) -> int:
        lines = price("gpt2", plan, 8, settings={"accumulate": 3}).steady.lines
        return sum(line.count for line in lines if line.name.startswith("bucket"))

    assert (reduces("zero1"), reduces("zero2")) == (1, 3)


def test_megatron_pads_its_buffer() -> None:
    lines = price("gpt2", "megatron_ddp", 8).steady.lines
    scatter = [line.call.size_bytes // 4 for line in lines if line.call.collective == "reduce_scatter"]
    gather = [line.call.size_bytes // 4 for line in lines if line.call.collective == "all_gather"]
    assert scatter == gather
    assert all(count % 128 == 0 for count in scatter)
    assert 124439808 <= sum(scatter) < 124439808 + 148 * 64 + 3 * 128


def test_a_pipeline_idles_for_micro_batches_and_not_for_what_is_done_once() -> None:
    """1 s of computation and 1 s of an exposed gradient all-reduce: a bubble of 0.5 is half of the computation."""
    events = [Compute("backward", "a", 1.0), call("all_reduce", WORLD, 100, "uint8", "backward", "b")]
    found = play(events, Rates(0.0, 150.0), Work(step_s=1.0), bubble=0.5)
    assert (found.exposed_s, found.bubble_s, found.step_s) == (
        pytest.approx(1.0),
        pytest.approx(0.5),
        pytest.approx(2.5),
    )


def test_a_message_takes_the_link_between_its_two_ranks() -> None:
    stages = Group("pp", (0, 1, 2, 3), 1)
    inside = message(stages, 0, True, 100, "uint8", "backward", "m").line
    across = message(stages, 2, True, 100, "uint8", "forward", "m").line
    assert ranks_of(inside) == (1, 0)
    found = [with_link(line, 2, 1).notes for line in (inside, across)]
    assert [notes["link"] for notes in found] == ["inside", "across"]
    assert [notes["across_bytes_per_rank"] for notes in found] == ["0", "100"]
    got = message(stages, 2, False, 100, "uint8", "backward", "m").line
    assert ranks_of(got) == (2, 1)


def test_a_broadcast_lends_from_an_all_gather_that_sends_as_many_bytes(tmp_path: Path) -> None:
    """At N = 2 an all-gather sends half of S, a broadcast all of it."""
    rows = [Measurement(Call("all_gather", 4**k, 2), 1e-5 + 4**k / 1e9) for k in range(6, 14)]
    path = tmp_path / "a.csv"
    path.write_text(post_csv.write(rows))
    profile, _, _ = read_profile(str(path))
    assert (
        profile.estimate(Call("broadcast", 2**20, 2)).seconds == profile.estimate(Call("all_gather", 2**21, 2)).seconds
    )
