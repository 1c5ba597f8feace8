"""Content -> one HTML file. The only file of the report that knows the template library and the chart library.

The file needs no other: style, scripts and the chart library (Vega-Lite, from vl-convert) stand in it. Its content
security policy lets nothing be fetched, and no script run but these, by their hashes; so text of a log that slipped through
escaping could still do nothing.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from importlib import resources
from typing import Any

from busbw._version import __version__
from busbw.draw.animation import schedule_fragment
from busbw.errors import MissingDependency
from busbw.report.content import Content

SCRIPTS = (
    "units.js",
    "cost_model.js",
    "charts.js",
    "explorer.js",
    "calculator.js",
    "compared.js",
    "table.js",
    "main.js",
)
"""The page's own scripts, in the order in which they are run."""
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def require_libraries() -> None:
    """MissingDependency where the libraries are not installed: worth knowing before an hour of measuring."""
    try:
        import jinja2  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise MissingDependency("jinja2 and vl-convert-python", "plot", "writing a report") from error


def render(content: Content) -> str:
    """The page as text."""
    require_libraries()
    import jinja2
    from markupsafe import Markup

    from busbw.report import words

    library = chart_library()
    own = "\n".join(['"use strict";', *(_page_file(name) for name in SCRIPTS)])
    scripts = [_in_script(library), _in_script(own)]
    ring = "" if content.ring is None else schedule_fragment(content.ring.schedule, uid="ring-animation")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_page_file), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters.update(words.FILTERS)
    page: str = environment.get_template("page.html.j2").render(
        content=content,
        version=__version__,
        policy=_policy([*scripts, *_SCRIPT.findall(ring)]),
        style=Markup(_page_file("report.css")),
        ring=Markup(ring),
        library=Markup(scripts[0]),
        script=Markup(scripts[1]),
        data=Markup(json_for_script(content.data)),
    )
    return page


@functools.cache
def chart_library() -> str:
    """Vega, Vega-Lite and vega-embed as one script, made by vl-convert."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def json_for_script(data: Any) -> str:
    """JSON that stands in a script element: no text in it can end the element, or begin a comment."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _in_script(script: str) -> str:
    """The same script with what would end its element written differently."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _policy(scripts: list[str]) -> str:
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def _page_file(name: str) -> str:
    return (resources.files("busbw.report") / "page" / name).read_text(encoding="utf-8")
