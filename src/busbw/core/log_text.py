"""A text as people have it: its lines with their numbers, freed of what launchers and terminals put in front.

A log of 100 MB is never held as a list of lines: the bytes stay as they are, and lines are decoded, cleaned and handed
out a chunk at a time. Line numbers are those that an editor shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.errors import printable

HEAD_BYTES = 65536
CHUNK_BYTES = 2**18
LONGEST_LINE = 16384
"""Characters; the rest of a longer line is dropped, since no format here has such lines outside of whole documents."""

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_UTF8_MARK = b"\xef\xbb\xbf"

_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""ANSI: colours and cursor moves, window titles, single characters."""

_TIME = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_PREFIX = re.compile(
    rf"""
    (?P<who>
      [ ]{{0,8}}\d{{1,7}}:(?=[ \t]|$)[ ]?                            # srun -l: "0: ", " 12: "
    | \[[^\]\s<>\[]*\d+,\d+\]<std(?:out|err|diag)>:                  # mpirun --tag-output: "[1,0]<stdout>:"
    | \[[\w.-]+:\d+\]:[ ]?                                           # "[host:rank]: "
    | \[(?:default|rank)?[ ]?\d{{1,6}}\](?::[ ]?|[ ])                # torchrun "[default0]:", mpiexec -l "[0] "
    | \[pod/[^\]\s]*\][ ]                                            # kubectl logs --prefix
    )
  | (?P<host>[A-Za-z][\w.-]*:[ ])                                    # pdsh, deepspeed: "host-01: ", with a digit
  | (?P<when>
      \[?\d{{4}}-\d\d-\d\d[T ]{_TIME}(?:Z|[ ]?[+-]\d\d:?\d\d)?\]?:?[ \t]    # kubectl, Slurm, GitHub
    | \[?{_TIME}\]?[ ]                                               # Jenkins
    | [A-Z][a-z]{{2}}[ ][ \d]\d[ ]{_TIME}[ ][\w.-]+[ ][\w./@-]+(?:\[\d+\])?:[ ]  # syslog
    | [A-Z][a-z]{{2}}[ ][A-Z][a-z]{{2}}[ ][ \d]\d[ ]{_TIME}[ ]\d{{4}}(?=[\[<])   # mpirun --timestamp-output
    )
  | (?P<quote>[ ]{{0,3}}>[ ]?(?!>>))                                 # markdown
    """,
    re.VERBOSE,
)
_MAY_HAVE_PREFIX = re.compile(r" {0,8}\d{1,7}:| {0,3}[\[>]|\d{4}-\d\d-|[A-Z][a-z]{2} [ \dA-Z]|[A-Za-z][\w.-]*: ")
_DIGIT = re.compile(r"\d")
_FENCE = re.compile(r"\s*(?:```|~~~)[\w{}. -]*$")


def clean_line(line: str) -> tuple[str, str]:
    """Who printed the line (its rank or host label, "" where there is none) and the line without any such prefix.

    Removed: ANSI escapes, labels of mpirun, srun, torchrun, kubectl and pdsh, timestamps, markdown quotes and fences,
    trailing blanks. Leading blanks and tabs stay. Where carriage returns overwrote a line, the last writing counts.
    """
    if "\x1b" in line:
        line = _ESCAPE.sub("", line)
    line = line.rstrip()
    if "\r" in line:
        line = line.rpartition("\r")[2]
    who = ""
    for _ in range(6):
        if _MAY_HAVE_PREFIX.match(line) is None:
            break
        match = _PREFIX.match(line)
        if match is None or (match.lastgroup == "host" and _DIGIT.search(match[0]) is None):
            break
        if match.lastgroup in ("who", "host"):
            who += match[0].strip()
        line = line[match.end() :]
    if "```" in line or "~~~" in line:
        line = _FENCE.sub("", line)
    return who, line


class LogText:
    """The content of one file: `name` is what messages call it, `data` its bytes as UTF-8."""

    __slots__ = ("data", "head", "name")

    def __init__(self, data: bytes, name: str) -> None:
        if data.startswith(_UTF16_MARKS):
            data = data.decode("utf-16", "replace").encode("utf-8")
        elif data.startswith(_UTF8_MARK):
            data = data[len(_UTF8_MARK) :]
        if b"\r" in data[:HEAD_BYTES] and b"\n" not in data:
            data = data.replace(b"\r", b"\n")
        self.data = data
        self.name = printable(name)
        self.head = data[:HEAD_BYTES].decode("utf-8", "replace")
        """The first 64 KiB as they stand, not cleaned."""

    def whole(self) -> str:
        """All of it as one string with plain line ends: for formats that are one document, such as JSON."""
        text = self.data.decode("utf-8", "replace")
        return text.replace("\r\n", "\n") if "\r" in text else text

    @property
    def is_binary(self) -> bool:
        """Whether its beginning is no text at all: more than one control character in ten."""
        control = sum(character < " " and character not in "\t\n\r\x1b" for character in self.head[:8192])
        return control > min(len(self.head), 8192) / 10

    def contains(self, *needles: bytes) -> bool:
        """Whether any of these byte strings occurs anywhere. Cheap even in 100 MB."""
        return any(needle in self.data for needle in needles)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Every line's number (from 1) and its cleaned text."""
        for number, _, text in self.tagged_lines():
            yield number, text

    def tagged_lines(self) -> Iterator[tuple[int, str, str]]:
        """Every line's number (from 1), who printed it ("0:", "[1,0]<stdout>:", or ""), and its cleaned text."""
        number = 0
        for chunk in self._chunks():
            for line in chunk.decode("utf-8", "replace").split("\n"):
                number += 1
                if line:
                    yield (number, *clean_line(line))
                else:
                    yield number, "", ""

    def find_lines(self, needles: tuple[bytes, ...], limit: int = 200) -> list[tuple[int, str]]:
        """The cleaned lines that contain one of these byte strings, in order; at most `limit` for each of them."""
        starts = set()
        for needle in needles:
            position = self.data.find(needle)
            for _ in range(limit):
                if position < 0:
                    break
                starts.add(self.data.rfind(b"\n", 0, position) + 1)
                end = self.data.find(b"\n", position)
                position = -1 if end < 0 else self.data.find(needle, end)
        found, number, counted = [], 1, 0
        for start in sorted(starts):
            number += self.data.count(b"\n", counted, start)
            counted = start
            end = self.data.find(b"\n", start)
            raw = self.data[start : start + LONGEST_LINE if end < 0 else min(end, start + LONGEST_LINE)]
            found.append((number, clean_line(raw.decode("utf-8", "replace"))[1]))
        return found

    def _chunks(self) -> Iterator[bytes]:
        """Pieces that end before a newline; a line longer than a piece is cut."""
        data, start, size = self.data, 0, len(self.data)
        while start < size:
            end = size if start + CHUNK_BYTES >= size else data.rfind(b"\n", start, start + CHUNK_BYTES)
            if end < 0:
                end = data.find(b"\n", start)
                end = size if end < 0 else end
                yield data[start : min(end, start + LONGEST_LINE)]
            elif end == size and data.endswith(b"\n"):
                yield data[start : end - 1]
            else:
                yield data[start:end]
            start = end + 1
