"""Checks of arguments: each names the argument, what came and what is expected."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import operator
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

from ._errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


def integer(name: str, value: Any, least: int, most: int = 2**63 - 1) -> int:
    """An integer of Python or numpy in [least, most]; a bool is none."""
    try:
        n = operator.index(value)
    except TypeError:
        raise ConfigError(f"{name} is {shown(value)}, must be an integer") from None
    if is_flag(value):
        raise ConfigError(f"{name} is {value!r}, must be an integer")
    if n < least:
        raise ConfigError(f"{name} is {n}, must be at least {least}")
    if n > most:
        raise ConfigError(f"{name} is {n}, must be at most {most}")
    return n


def flag(name: str, value: Any) -> bool:
    """True or False: the text "no" is as true as "yes"."""
    if not is_flag(value):
        raise ConfigError(f"{name} is {shown(value)}, must be True or False")
    return bool(value)


def is_flag(value: Any) -> bool:
    """Whether a value is a bool, of Python or numpy."""
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{name} is {shown(value)}, must be text")
    return value


def choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """One of the names, in any case."""
    known = tuple(choices)
    if not isinstance(value, str) or value.lower() not in known:
        close = difflib.get_close_matches(value.lower(), known, 1) if isinstance(value, str) else []
        meant = f" (did you mean {close[0]!r}?)" if close else ""
        raise ConfigError(f"{name} is {shown(value)}: one of {', '.join(known)}{meant}")
    return value.lower()


def integers(name: str, values: Any, example: str) -> list[Any]:
    """The entries of a list of integers, which are not looked at yet.

    Text is no list although it can be iterated, and a set has no order.
    """
    if not isinstance(values, (str, bytes, set, frozenset, dict)):
        try:
            return list(values)
        except TypeError:
            pass
    raise ConfigError(f"{name} is {shown(values)}, must be a list of integers such as {example}")


def shown(value: Any) -> str:
    """A value for a message: arrays and long texts are not printed."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"a {type(value).__name__} of shape {shape}" if shape else f"{value!r}"
    full = repr(value)
    return full if len(full) <= 100 else f"{full[:97]}..."


def needed(module: str, user: str) -> Any:
    """A module that headrace does without; the error tells what asks for it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as e:
        package = module.partition(".")[0]
        if e.name != package:
            raise
        raise ModuleNotFoundError(f"{package} is needed for {user}: pip install {package}", name=package) from None


def spelled(function: Callable[P, R], *, name: str = "", more: Iterable[str] = ()) -> Callable[P, R]:
    """The function, which names itself and the nearest keyword where one is misspelt.

    `more` are keywords that it takes as **options.
    """
    parameters = inspect.signature(function).parameters.values()
    known = {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)} - {"self"} | set(more)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for key in kwargs:
            if key not in known:
                raise TypeError(unknown_keyword(name or function.__name__, key, known))
        return function(*args, **kwargs)

    return call


def spelled_class(cls: C, more: Iterable[str] = ()) -> C:
    """The class, whose __init__ is `spelled`."""
    cls.__init__ = spelled(cls.__init__, name=cls.__name__, more=more)
    return cls


def spelled_with(more: Iterable[str]) -> Callable[[C], C]:
    """`spelled_class` for an __init__ that takes these keywords as **options."""
    return lambda cls: spelled_class(cls, more)


_OF_DATA_LOADER = {
    "num_workers": "the engine's threads are the workers; workers= limits them",
    "persistent_workers": "the engine's threads stay",
    "multiprocessing_context": "the engine's threads are the workers",
    "prefetch_factor": "lookahead= is the number of samples that are planned ahead",
    "drop_last": 'tail="drop" leaves a short last batch out, tail="mask" fills it up',
    "pin_memory": "nothing is to be pinned, batches are made on the device",
    "collate_fn": "batches come as they are, change them in the loop",
    "sampler": "the order follows from seed=, crop_list() and weighted() choose the samples",
    "batch_sampler": "the order follows from seed=, crop_list() and weighted() choose the samples",
}
"""What a Loader has in place of an argument of torch's DataLoader."""


def unknown_keyword(name: str, key: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(key, names, 1)
    hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(names)}"
    if name == "Loader":
        hint = _OF_DATA_LOADER.get(key, hint)
    return f"{name} has no argument {key!r}: {hint}"
