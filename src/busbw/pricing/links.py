"""Which links a call's bytes take: inside a host, or across hosts.

Ranks fill hosts one after the other. A ring runs through a group in rank order, so of its N hops those cross that lead
to another host, and each hop carries what one rank sends; an all-to-all sends each peer its own share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw.core.bill import Line

PAIRWISE = ("all_to_all", "all_to_all_v", "send_recv_one_way", "send_recv")


MESSAGES = ("send_recv_one_way", "send_recv")


def ranks_of(line: Line) -> tuple[int, ...]:
    """The world's ranks between which one call of the line goes: of a message its own two, the sender first."""
    peer = line.notes.get("peer", "")
    if line.call.collective in MESSAGES and peer.isdecimal():
        pair = (int(line.notes.get("own", line.group_ranks[0] if line.group_ranks else peer)), int(peer))
        return pair[::-1] if line.notes.get("way") == "receive" else pair
    return line.group_ranks


def across_share(line: Line, ranks_per_host: int, rank: int) -> float:
    """The share of a rank's sent bytes that leaves its host: the mean over a ring's ranks, or this rank's own in pairs."""
    ranks = ranks_of(line)
    if len(ranks) < 2:
        return 0.0
    hosts = [each // ranks_per_host for each in ranks]
    if line.call.collective in PAIRWISE:
        home = rank // ranks_per_host
        others = [host for each, host in zip(ranks, hosts, strict=True) if each != rank]
        return sum(host != home for host in others) / len(others)
    return sum(host != hosts[(i + 1) % len(hosts)] for i, host in enumerate(hosts)) / len(hosts)


def with_link(line: Line, ranks_per_host: int, rank: int) -> Line:
    """The line with its link class (inside, across, or both) and the bytes that one call sends across, in its notes."""
    share = across_share(line, ranks_per_host, rank)
    spans = len({each // ranks_per_host for each in ranks_of(line)}) > 1
    link = "inside" if not spans else ("across" if share == 1 else "both")
    sent = round(line.sent_bytes_per_rank * share)
    return replace(line, notes={**line.notes, "link": link, "across_bytes_per_rank": str(sent)})


def sent_by_link(lines: Sequence[Line]) -> dict[str, int]:
    """Bytes that a rank sends inside its host and across hosts, over lines that know their link."""
    across = sum(int(line.notes.get("across_bytes_per_rank", "0")) * line.count for line in lines)
    total = sum(line.sent_bytes_per_rank * line.count for line in lines)
    return {"inside": total - across, "across": across}
