from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.algorithms.msccl_xml import read, write
from busbw.algorithms.spec import parse_algorithm
from busbw.core.collective import COLLECTIVES
from busbw.core.schedule import ALGORITHMS
from busbw.errors import BusbwError, FileError, UsageError

RING_OF_TWO = """
<algo name="two" nchunksperloop="2" nchannels="1" proto="Simple" ngpus="2" coll="allreduce" inplace="1">
  <gpu id="0" i_chunks="2" o_chunks="0" s_chunks="0">
    <tb id="0" send="1" recv="1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="rrcs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="2" type="r" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="2" o_chunks="0" s_chunks="0">
    <tb id="0" send="0" recv="0" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="rrcs" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="2" type="r" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
"""


def step(kind: str, source: str, target: str, wait: str = "-1 -1", count: int = 1) -> str:
    """A step from `i0 o1` and the like."""
    depid, deps = wait.split()
    return (
        f'<step type="{kind}" srcbuf="{source[0]}" srcoff="{source[1:]}" dstbuf="{target[0]}" dstoff="{target[1:]}" '
        f'cnt="{count}" depid="{depid}" deps="{deps}"/>'
    )


def program(coll: str, chunks: int, *gpus: str, sizes: str = "", inplace: int = 0) -> str:
    """A file from the thread blocks of each GPU."""
    inside = "".join(f'<gpu id="{rank}" {sizes}>{blocks}</gpu>' for rank, blocks in enumerate(gpus))
    return f'<algo coll="{coll}" ngpus="{len(gpus)}" nchunksperloop="{chunks}" inplace="{inplace}">{inside}</algo>'


def block(number: int, send: int, recv: int, *steps: str) -> str:
    return f'<tb id="{number}" send="{send}" recv="{recv}" chan="0">{"".join(steps)}</tb>'


def test_two_gpus_exchange_and_send_the_sums_on() -> None:
    schedule = read(RING_OF_TWO)
    assert (schedule.algorithm, schedule.collective, schedule.world_size, schedule.chunks) == (
        "two",
        "all_reduce",
        2,
        2,
    )
    rounds = [
        sorted(zip(r.source.tolist(), r.target.tolist(), r.source_slot.tolist(), r.reduces.tolist(), strict=True))
        for r in schedule.rounds()
    ]
    assert rounds == [[(0, 1, 1, True), (1, 0, 0, True)], [(0, 1, 0, False), (1, 0, 1, False)]]


def test_sums_that_are_sent_on_and_not_kept_go_through_scratch() -> None:
    """A chain 0 -> 1 -> 2 with rrs in the middle: rank 1 keeps its own; reduce to GPU 2, root 2."""
    text = program(
        "reduce",
        1,
        block(0, 1, -1, step("s", "i0", "i0")),
        block(0, 2, 0, step("rrs", "i0", "o0")),
        block(0, -1, 1, step("rrc", "i0", "i0")),
        sizes='i_chunks="1" o_chunks="1"',
    ).replace("<algo ", '<algo root="2" ')
    schedule = read(text)
    assert schedule.root == 2
    assert schedule.sent_share().tolist() == [1, 1, 0]
    assert schedule.slot_count == 2  # one of scratch


def test_out_of_place_programs_copy_their_own_part() -> None:
    text = program(
        "allgather",
        2,
        block(0, 1, 1, step("s", "i0", "o0"), step("r", "i0", "o1")) + block(1, -1, -1, step("cpy", "i0", "o0")),
        block(0, 0, 0, step("s", "i0", "o1"), step("r", "i0", "o0")) + block(1, -1, -1, step("cpy", "i0", "o1")),
        sizes='i_chunks="1" o_chunks="2"',
    )
    assert read(text).sent_share().tolist() == [0.5, 0.5]


def test_input_and_output_that_cannot_share_a_place_are_kept_apart() -> None:
    """GPU 0 writes its output before it has sent its input."""
    text = program(
        "allreduce",
        1,
        block(0, -1, 1, step("rrc", "i0", "o0"))
        + block(1, 1, -1, step("nop", "i0", "i0", "0 0"), step("s", "i0", "o0")),
        block(0, -1, 0, step("rrc", "i0", "o0")) + block(1, 0, -1, step("s", "i0", "o0")),
        sizes='i_chunks="1" o_chunks="1"',
    )
    schedule = read(text)
    assert schedule.phases[0].label == "input aside"
    assert schedule.slot_count == 2


@pytest.mark.parametrize("name", [name for name in ALGORITHMS.names() if name != "nvls"])
def test_what_is_written_reads_as_the_same_work(name: str) -> None:
    algorithm = ALGORITHMS.get(name)
    for collective in algorithm.builders:
        for n in (2, 3, 4, 6):
            root = n - 1 if COLLECTIVES.get(collective).rooted else 0
            schedule = algorithm.build(collective, n, root=root)
            again = read(write(schedule))
            assert (again.collective, again.world_size, again.root) == (collective, n, root)
            assert again.sent_share() == pytest.approx(schedule.sent_share())


def test_a_ring_is_written_with_its_dependencies() -> None:
    text = write(ALGORITHMS.get("ring").build("all_reduce", 2), "mine")
    assert re.findall(r'name="(\w+)"', text) == ["mine"]
    steps = re.findall(r'<step s="(\d)" type="(\w+)" srcbuf="i" srcoff="(\d)".* depid="(-?\d)" deps="(-?\d)"', text)
    # GPU 0: thread block 0 sends chunk 1, then (after what block 1 has added) chunk 0; block 1 adds chunk 0, takes 1
    # after block 0 has sent it.
    assert steps[:4] == [
        ("0", "s", "1", "-1", "-1"),
        ("1", "s", "0", "1", "0"),
        ("0", "rrc", "0", "-1", "-1"),
        ("1", "r", "1", "0", "0"),
    ]


def test_what_cannot_be_written() -> None:
    with pytest.raises(UsageError, match="nvls: MSCCL has no reduction in the switch"):
        write(ALGORITHMS.get("nvls").build("all_reduce", 4))
    part = ALGORITHMS.get("ring").build("all_reduce", 2)
    uneven = type(part)("mine", "all_reduce", 2, 2, (), parts=((0.25, part), (0.75, part)))
    with pytest.raises(UsageError, match="MSCCL's channels are equal parts of the tensor"):
        write(uneven)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</algo>", "", r"mine.xml:\d+: not well-formed XML: no element found"),
        ("algo ", "program ", "not well-formed XML: mismatched tag"),
        ('coll="allreduce"', 'coll="custom"', "algo: coll 'custom' is none of the collectives here"),
        ('ngpus="2"', 'ngpus="3"', "algo: 2 <gpu> of ngpus=3: every GPU once"),
        ('ngpus="2"', 'ngpus="two"', "algo: ngpus='two' is not a number"),
        ('<gpu id="1"', '<gpu id="0"', "gpu 0: must be one of 0 to 1, each once"),
        ('send="1" recv="1"', 'send="2" recv="1"', "gpu 0 tb 0: send=2 is not another GPU"),
        ('send="1" recv="1"', 'send="-1" recv="1"', "gpu 0 tb 0 step 0: type s, and its thread block has no send peer"),
        (
            'type="rrcs" srcbuf="i" srcoff="0"',
            'type="rrx" srcbuf="i" srcoff="0"',
            "gpu 0 tb 0 step 1: type 'rrx': must be",
        ),
        (
            'type="s" srcbuf="i" srcoff="1"',
            'type="nop" srcbuf="i" srcoff="1"',
            "unmatched: GPU 0 sends 1 times to GPU 1",
        ),
        (
            'dstbuf="i" dstoff="1" cnt="1"',
            'dstbuf="i" dstoff="1" cnt="2"',
            "receives 1 chunks, and gpu 0 tb 0 step 0 sends it 2",
        ),
        ('srcbuf="i" srcoff="1"', 'srcbuf="i" srcoff="9"', "gpu 1 tb 0 step 1: chunks 9 to 9 of i, which has 2"),
        ('srcbuf="i" srcoff="1"', 'srcbuf="x" srcoff="1"', "chunks 1 to 1 of buffer 'x': i, o, or s with s_chunks"),
        (
            'depid="-1" deps="-1"',
            'depid="7" deps="0"',
            "gpu 0 tb 0 step 0: waits for step 0 of thread block 7, which does not",
        ),
        ('depid="-1" deps="-1"', 'depid="0" deps="2"', "waits for itself: steps wait for each other in a circle"),
        ('type="rrcs"', 'type="rcs"', r"round 2 \(the end\): slot 0 of rank 0 holds chunk 0 of rank 1, and must hold"),
        ('cnt="1"', 'cnt="0"', "gpu 0 tb 0 step 0: cnt=0: 1 or more"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(old: str, new: str, message: str) -> None:
    with pytest.raises(FileError, match=message):
        read(RING_OF_TWO.replace(old, new, 1), "mine.xml")


def test_a_file_is_an_algorithm_of_one_collective_and_n(tmp_path: Path) -> None:
    path = tmp_path / "two.xml"
    path.write_text(RING_OF_TWO)
    spec = parse_algorithm(str(path))
    assert spec.build("all_reduce", 2).round_count == 2
    assert spec.why_not("all_reduce", 4).endswith("can't do all_reduce on 4 ranks: the file is for 2 GPUs")
    with pytest.raises(FileError, match=r"none.xml: cannot be read: No such file"):
        parse_algorithm(str(tmp_path / "none.xml"))
    (tmp_path / "other.xml").write_text("<system/>")
    with pytest.raises(FileError, match="the outermost element is <system>: MSCCL's is <algo>"):
        parse_algorithm(str(tmp_path / "other.xml"))


@pytest.mark.fuzz
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_change_of_a_file_reads_or_is_one_clear_error(data: st.DataObject) -> None:
    words = re.split(r'(")', RING_OF_TWO)
    for _ in range(data.draw(st.integers(1, 3))):
        words[data.draw(st.integers(0, len(words) - 1))] = data.draw(
            st.sampled_from(["0", "1", "2", "-1", "x", "", "i", "o", "s", "r", "rrs", "nop", "allgather", "99999"])
        )
    try:
        read("".join(words), "mine.xml")
    except BusbwError as error:
        assert "\n" not in str(error)
