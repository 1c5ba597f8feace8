from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("vl_convert")

import busbw
from busbw.report.html import json_for_script

from .rows import HOSTILE, REASON, results

MIB = 2**20


class Elements(html.parser.HTMLParser):
    """Every element that starts in the page, with its attributes; text of scripts apart."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.started: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.started.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.started and self.started[-1][0] == "script" and self.cdata_elem == "script":
            self.scripts[-1] += data
        else:
            self.texts.append(data)


@pytest.fixture(scope="module")
def page() -> str:
    return busbw.html_report(results(), title="Before & <b>after</b>")


@pytest.fixture(scope="module")
def elements(page: str) -> Elements:
    return Elements(page)


def test_it_is_one_file_of_moderate_size(page: str) -> None:
    assert page.startswith("<!doctype html>")
    assert len(page.encode()) < 2.5 * MIB


def test_nothing_is_loaded_from_elsewhere(elements: Elements) -> None:
    for tag, attributes in elements.started:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base"), (tag, attributes)
        assert "src" not in attributes, (tag, attributes)
        assert (attributes.get("href") or "#").startswith("#"), (tag, attributes)
    assert not re.search(r"url\(|@import", re.sub(r"<script.*?</script>", "", page_of(elements), flags=re.DOTALL))


def page_of(elements: Elements) -> str:
    return "".join(elements.texts)


def test_no_script_runs_but_the_pages_own(elements: Elements) -> None:
    policy = next(a["content"] for _, a in elements.started if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.partition("style-src")[0]
    allowed = set(re.findall(r"'sha256-([^']+)'", policy))
    kinds = [a.get("type") for tag, a in elements.started if tag == "script"]
    run = [text for text, kind in zip(elements.scripts, kinds, strict=True) if kind is None]
    assert {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run} == allowed
    handlers = [name for _, attributes in elements.started for name in attributes if name.startswith("on")]
    assert handlers == []


def test_text_of_logs_is_text(elements: Elements) -> None:
    text = "".join(elements.texts)
    assert HOSTILE in text
    assert REASON[1:] in text  # it begins a sentence there
    assert "Before & <b>after</b>" in text
    assert sum(tag == "script" for tag, _ in elements.started) == 5  # two of data, the library, the page's, the ring's


def test_data_of_scripts_cannot_end_them() -> None:
    hostile = ["</script>", "<!--", "<script>", "&lt;", "\u2028", "]]>"]
    text = json_for_script({"texts": hostile})
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == {"texts": hostile}


def test_a_lone_surrogate_does_not_stop_it(tmp_path: object) -> None:
    page = busbw.html_report(results(), title="broken \ud800 text")
    assert "broken ? text" in page.encode("utf-8", errors="replace").decode()


def test_many_rows_stay_below_the_limit() -> None:
    page = busbw.html_report(results(sizes=tuple(2**power for power in range(11, 31)), launches=20))
    assert len(page.encode()) < 2.5 * MIB
    assert "The first 4000 of 7200 rows are here" in page
