"""A torch module as a Model: its tensors, and the order in which backward finishes its gradients.

The module is built on the meta device, so nothing is allocated. The order of gradients follows from what forward calls,
which only running it tells: with example inputs forward and backward run on meta tensors, and hooks note what finishes
when. Without inputs the modules are taken to run in the order in which they are registered, and the model says so.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from busbw.core.plan import Model, Tensor
from busbw.errors import MissingDependency, UsageError
from busbw.pricing.readers import find_blocks

_DTYPES = {"bool": "uint8", "float8_e4m3fn": "float8_e4m3"}
_BIAS_FIRST = ("Linear", "Conv1D", "LazyLinear", "NonDynamicallyQuantizableLinear")
"""Classes whose backward finishes the bias before the weight (addmm)."""


def read_function(text: str) -> Model:
    """The model of `package.module:function`, which returns an nn.Module, or a module and its example inputs.

    The function is called under the meta device, without arguments (recurrent layers are built on the CPU). Inputs are a tuple, a dictionary of keywords, or
    one tensor. UsageError names what is wrong with it.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingDependency("torch", "torch", f"reading the module {text}") from error
    function = _find(text)
    try:
        with torch.device("meta"):
            result = function()
        if _recurrent(result):  # kernels of recurrent layers differ by device, and with them the order of gradients
            result = function()
    except Exception as error:
        raise UsageError(f"{text}: calling it without arguments failed: {_first_line(error)}") from error
    module, inputs = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"{text}: it returned {type(module).__name__}, not an nn.Module (or a module and its inputs)")
    return describe(module, inputs, name=text.rpartition(":")[2], source=text)


def describe(module: Any, inputs: Any = None, *, name: str | None = None, source: str = "") -> Model:
    """The model of an nn.Module (on the meta device, where inputs are given and should not be computed with).

    `inputs` are example inputs on the module's device; with them the order of gradients is traced, and parameters that
    get none are found.
    """
    tensors = _tensors(module)
    notes: tuple[str, ...] = ()
    run_order: tuple[str, ...] = ()
    places: dict[str, float] = {}
    samples, facts = _samples(inputs)
    if inputs is None:
        arrival = _by_registration(module)
        notes = ("gradients are taken to arrive in the reverse order of registration: example inputs would tell",)
        used = set(arrival)
    else:
        arrival, run_order, places = _traced(module, inputs)
        used = set(arrival)
        if _recurrent(module):
            notes = ("the order of a recurrent layer's gradients is that of the CPU's kernels; cuDNN's may differ",)
    listed = tuple(
        replace(
            each,
            used=each.trainable and each.name in used,
            flops=each.flops * places.get(each.name, samples) / samples,
        )
        for each in tensors
    )
    names = [each.name for each in listed if not each.buffer]
    blocks = find_blocks(names)
    if run_order:
        place = {path: index for index, path in enumerate(run_order)}
        blocks = tuple(sorted(blocks, key=lambda path: place.get(path, len(place))))
    return Model(
        name or type(module).__name__,
        listed,
        arrival,
        blocks,
        None,
        "image" if facts.get("kind") == "image" else "token",
        source or f"module {type(module).__name__}",
        notes,
        {"classes": _classes(module), "owned": _owned(module), "ran": list(run_order), **facts},
    )


def _recurrent(result: Any) -> bool:
    import torch

    module = result[0] if isinstance(result, tuple) else result
    return isinstance(module, torch.nn.Module) and any(isinstance(each, torch.nn.RNNBase) for each in module.modules())


def _find(text: str) -> Callable[[], Any]:
    place, _, attribute = text.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(place)
    except Exception as error:
        raise UsageError(f"{text}: {place} cannot be imported: {_first_line(error)}") from error
    for word in attribute.split("."):
        if not hasattr(found, word):
            known = ", ".join(
                each for each in dir(found) if not each.startswith("_") and callable(getattr(found, each))
            )
            raise UsageError(f"{text}: {place} has no {word!r}; callable in it: {known[:300] or 'nothing'}")
        found = getattr(found, word)
    if not callable(found):
        raise UsageError(f"{text}: it is a {type(found).__name__}, not a function that returns an nn.Module")
    function: Callable[[], Any] = found
    return function


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error).strip() else ''}".rstrip(
        ": "
    )


def _tensors(module: Any) -> list[Tensor]:
    found = [
        Tensor(
            name, tuple(parameter.shape), _dtype(name, parameter), trainable=bool(parameter.requires_grad), flops=work
        )
        for name, parameter, work in _with_flops(module)
    ]
    found += [
        Tensor(name, tuple(buffer.shape), _dtype(name, buffer), buffer=True, trainable=False, used=False)
        for name, buffer in module.named_buffers()
    ]
    if not any(not each.buffer for each in found):
        raise UsageError(f"{type(module).__name__} has no parameters")
    return found


def _with_flops(module: Any) -> Iterable[tuple[str, Any, float]]:
    """Parameters with the FLOPs of one token: 2 for each element of a matrix that is multiplied with, 0 for a look-up."""
    import torch

    tables = {id(child.weight) for child in module.modules() if isinstance(child, torch.nn.Embedding)}
    for name, parameter in module.named_parameters():
        yield name, parameter, 2.0 * parameter.numel() if parameter.dim() >= 2 and id(parameter) not in tables else 0.0


def _dtype(name: str, tensor: Any) -> str:
    from busbw.core.dtype import DTYPES

    word = str(tensor.dtype).removeprefix("torch.")
    word = _DTYPES.get(word, word)
    if word not in DTYPES:
        raise UsageError(f"{name} has dtype {word}, which is not known here ({', '.join(DTYPES)})")
    return word


def _by_registration(module: Any) -> tuple[str, ...]:
    """Gradients in the reverse order of registration; a linear layer's bias before its weight, else weight first."""
    names = {id(parameter): name for name, parameter in module.named_parameters() if parameter.requires_grad}
    order: list[str] = []
    seen: set[int] = set()
    for child in module.modules():
        own = [each for each in child.parameters(recurse=False) if id(each) in names and id(each) not in seen]
        seen.update(id(each) for each in own)
        if type(child).__name__ in _BIAS_FIRST:
            own.reverse()
        order[:0] = [names[id(each)] for each in own]
    return tuple(order)


def _samples(inputs: Any) -> tuple[float, dict[str, Any]]:
    """How many sample units the example inputs hold (tokens, or images), and what a micro-batch of them is."""
    first = next(iter(_tensors_in(inputs)), None)
    if first is None or not first.dim():
        return 1.0, {}
    if first.dim() == 4:
        return float(first.shape[0]), {"kind": "image", "micro_batch": first.shape[0]}
    batch, length = first.shape[0], first.shape[1] if first.dim() > 1 and not first.is_floating_point() else 1
    if first.dim() == 3:
        length = first.shape[1]
    return float(batch * length), {"micro_batch": batch, "sequence": length}


def _tensors_in(value: Any) -> Iterable[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors_in(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors_in(item)


def _traced(module: Any, inputs: Any) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, float]]:
    """Names in the order in which backward finishes them, module paths in the order in which they first ran, and at how
    many places each weight of a linear layer or a convolution was applied."""
    import torch

    arrival: list[str] = []
    ran: list[str] = []
    places: dict[str, float] = {}
    handles = []
    names = {id(parameter): name for name, parameter in module.named_parameters()}

    def applied(child: Any, _: Any, output: Any) -> None:
        name = names.get(id(child.weight))
        if name is not None and isinstance(output, torch.Tensor):
            channels = child.weight.shape[0]
            places[name] = places.get(name, 0.0) + output.numel() / channels

    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            handles.append(parameter.register_post_accumulate_grad_hook(lambda _, name=name: arrival.append(name)))
    for path, child in module.named_modules():
        if path:
            handles.append(child.register_forward_pre_hook(lambda *_, path=path: ran.append(path)))
        if isinstance(child, torch.nn.Linear | torch.nn.modules.conv._ConvNd):
            handles.append(child.register_forward_hook(applied))
    words: Mapping[str, Any] = inputs if isinstance(inputs, Mapping) else {}
    given: Sequence[Any] = (
        () if isinstance(inputs, Mapping) else (inputs if isinstance(inputs, tuple | list) else (inputs,))
    )
    before = {id(parameter): parameter.grad for parameter in module.parameters()}
    try:
        with torch.enable_grad():
            outputs = [tensor for tensor in _leaves(module(*given, **words)) if tensor.requires_grad]
            if not outputs:
                raise UsageError(f"{type(module).__name__}: nothing that forward returns depends on a parameter")
            torch.autograd.backward([tensor.sum() for tensor in outputs])
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{type(module).__name__} does not run on its example inputs: {_first_line(error)}") from error
    finally:
        for handle in handles:
            handle.remove()
        for parameter in module.parameters():
            parameter.grad = before[id(parameter)]
    return tuple(arrival), tuple(dict.fromkeys(ran)), places


def _leaves(value: Any) -> list[Any]:
    """The floating-point tensors of what a module returned; a loss, where there is one, alone."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    loss = value.get("loss") if isinstance(value, Mapping) else getattr(value, "loss", None)
    if isinstance(loss, torch.Tensor):
        return [loss]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in _leaves(item)]
    return []


def _classes(module: Any) -> dict[str, str]:
    """Class names by module path, for plans that wrap by class."""
    return {path: type(child).__name__ for path, child in module.named_modules()}


def _owned(module: Any) -> dict[str, list[str]]:
    """Every name under which a shared parameter is registered, by its first name."""
    first: dict[int, str] = {}
    names: dict[str, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(first.setdefault(id(parameter), name), []).append(name)
    return {name: every for name, every in names.items() if len(every) > 1}
