"""A report: one HTML file for a colleague who was not there, with no request to anywhere.

    sides.py     which files are one run, and which are runs to compare
    content.py   everything that the page says, as plain data; it knows no HTML
    side_page.py, fit_page.py, machine_page.py, compared.py, ring.py, derived.py   the parts of it
    words.py     core's values as the template writes them
    data.py      what the page's own scripts work on, as JSON: lines, rows, cost models, looks
    html.py      content -> one HTML file; the only file that knows the template library and the chart library
    page/        the template, the style sheet, and the scripts: cost model, figures, calculator, table

To say something more on the page: a field in `content.py`, filled by the part that it belongs to, shown in the template.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from busbw.core.finding import Facts
    from busbw.core.measurement import Results


def html_report(
    results: Results | Sequence[Results | Sequence[Results]],
    facts: Facts | None = None,
    *,
    title: str = "",
    across: Iterable[str] = (),
) -> str:
    """One self-contained HTML page about results, as text to be written to a file.

    Files whose rows are other work (another op, N or size) are one run; files with the same work are runs that are
    compared, the first being the one before. A sequence inside the sequence is one run of several launches. `facts` is what
    is known of the machine, `across` names labels that may differ between compared rows.
    Raises UsageError when there is no row, MissingDependency without the libraries of `busbw[plot]`.
    """
    from busbw.core.measurement import Results
    from busbw.report.content import make_content
    from busbw.report.html import render

    given = [results] if isinstance(results, Results) else results
    inputs = [[files] if isinstance(files, Results) else list(files) for files in given]
    return render(make_content(inputs, facts, title=title, across=tuple(across)))
