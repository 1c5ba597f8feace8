"""Python runs this at its start when `busbw capture` has put its folder first on PYTHONPATH.

It runs the sitecustomize that would have run instead, and asks to be told when torch has been imported: then the
capture begins. Whatever fails here is said on stderr in one line, and the program goes on as if nothing were here.
"""

from __future__ import annotations

import os
import sys
from typing import Any


def _chain(here: str) -> None:
    """Run the sitecustomize that this one hides."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _say(error: Exception) -> None:
    sys.stderr.write(f"busbw capture: nothing is captured in process {os.getpid()}: {type(error).__name__}: {error}\n")


def _import_busbw(folder: str) -> Any:
    """Import busbw; from where the command line has it, when the program's Python has none."""
    import importlib.util

    try:
        import busbw
    except ImportError:
        spec: Any = importlib.util.spec_from_file_location(
            "busbw", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        library = sys.modules["busbw"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(library)
        return library
    return busbw


class _AfterTorch:
    """A finder that lets others find torch, and begins the capture when its module has been executed."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._busy = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Nothing of ours: only torch's own spec, with a loader that tells us."""
        if name != "torch" or self._busy:
            return None
        import importlib.util

        self._busy = True  # so that the search below does not find us again
        try:
            spec = importlib.util.find_spec("torch")
        finally:
            self._busy = False
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._begin()

        loader: Any = spec.loader
        loader.exec_module = exec_module
        return spec

    def _begin(self) -> None:
        settings = self._settings
        try:
            os.makedirs(settings["output"], exist_ok=True)
            with open(os.path.join(settings["output"], ".seen"), "a", encoding="utf-8") as file:
                file.write(f"{os.getpid()}\n")
            capture = _import_busbw(settings["busbw"]).capture(settings["output"], settings["steps"], settings["times"])
            capture.start()
        except Exception as error:
            _say(error)


def _main() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        import json

        settings = json.loads(os.environ.get("BUSBW_CAPTURE", "null"))
        if settings:
            sys.meta_path.insert(0, _AfterTorch(settings))
    except Exception as error:
        _say(error)
    _chain(here)


_main()
