from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from busbw.core.bill import Bill, Bills, Line
from busbw.core.plan import Model
from busbw.errors import UsageError
from busbw.pricing import price
from busbw.pricing.against import differences


def changed(bills: Bills, change: Any) -> Bills:
    steps = {name: Bill(name, bills.rank, tuple(change(list(bill.lines)))) for name, bill in bills.steps.items()}
    return replace(bills, steps=steps)


def test_the_same_bill_does_not_differ(small: Model) -> None:
    bills = price(small, "fsdp2", 4)
    assert differences(bills, bills) == []
    unfolded = changed(bills, lambda lines: [replace(each, count=1) for each in lines for _ in range(each.count)])
    assert differences(bills, unfolded) == []


def test_an_extra_call_is_named_with_its_bytes(small: Model) -> None:
    bills = price(small, "fsdp2", 4)
    norm = price(small, "fsdp2", 4, settings={"clip": True})
    (found,) = differences(bills, norm, ["steady"])
    assert (found.kind, found.calls, found.size_bytes, found.sent_bytes_per_rank) == ("more", 1, 84, 2 * 3 * 84 // 4)
    assert "clip_grad_norm_" in found.advice
    (less,) = differences(norm, bills, ["steady"])
    assert (less.kind, less.calls, less.size_bytes) == ("less", -1, -84)


def test_five_all_reduces_where_two_were_expected(small: Model) -> None:
    found = differences(price(small, "tp", 2), price(small, "tp,prepare=false", 2), ["steady"])
    assert sum(each.calls for each in found) == 2 * (5 - 2)
    assert all("PrepareModuleInput" in each.advice for each in found)


def test_buffers_before_every_forward(small: Model) -> None:
    found = differences(price("resnet18", "ddp,broadcast_buffers=false", 8), price("resnet18", "ddp", 8), ["steady"])
    assert [each.size_bytes for each in found] == [38400, 160]
    assert all("broadcast_buffers=False" in each.advice for each in found)


def test_padding_is_a_changed_call(small: Model) -> None:
    def grown(lines: list[Line]) -> list[Line]:
        if not lines:
            return []
        first = lines[0]
        return [replace(first, call=replace(first.call, size_bytes=first.call.size_bytes + 64)), *lines[1:]]

    bills = price(small, "fsdp2", 4)
    (found,) = differences(bills, changed(bills, grown), ["steady"])
    assert (found.kind, found.size_bytes) == ("changed", 64)
    assert "padding" in found.advice


def test_another_order_is_told(small: Model) -> None:
    bills = price(small, "fsdp2", 4)
    (found,) = differences(bills, changed(bills, lambda lines: lines[::-1]), ["steady"])
    assert found.kind == "moved"


def test_another_world_is_a_mistake(small: Model) -> None:
    with pytest.raises(UsageError, match="the capture is of 2 ranks, the plan of 4"):
        differences(price(small, "ddp", 4), price(small, "ddp", 2))
