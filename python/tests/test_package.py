"""The package as it is installed: docs, types, and the command."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import headrace as hr
from zarr_writer import write_array

FOLDER = Path(hr.__file__).parent
NAMES = [m.name for m in pkgutil.iter_modules([str(FOLDER)]) if m.name.startswith("_") and m.name != "__main__"]
MODULES = [hr, *(importlib.import_module(f"headrace.{name}") for name in NAMES)]

installed = pytest.mark.skipif(
    "site-packages" not in FOLDER.parts, reason="runs against the source tree, not against the wheel"
)


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_the_examples_in_the_docs(module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_array(tmp_path / "demo.zarr", np.arange(8 * 12, dtype=np.uint16).reshape(8, 12), (4, 4))
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(module).failed == 0


def test_there_are_examples() -> None:
    assert sum(len(t.examples) for m in MODULES for t in doctest.DocTestFinder().find(m)) >= 10


def test_every_public_name_is_documented() -> None:
    bare: list[str] = []
    for name in hr.__all__:
        thing = getattr(hr, name)
        if not callable(thing):
            continue
        if not inspect.getdoc(thing):
            bare.append(name)
        for attribute, value in vars(thing).items() if inspect.isclass(thing) else ():
            public = not attribute.startswith("_") and (callable(value) or isinstance(value, (property, classmethod)))
            if public and thing.__module__.startswith("headrace") and not inspect.getdoc(getattr(thing, attribute)):
                bare.append(f"{name}.{attribute}")
    assert not bare


def test_it_is_typed() -> None:
    assert (FOLDER / "py.typed").exists()


@installed
def test_the_wheel_fits_every_python_3_and_needs_nothing() -> None:
    about = metadata.distribution("headrace")
    assert about.version == hr.__version__
    assert not [r for r in about.requires or () if "extra ==" not in r]
    wheel = about.read_text("WHEEL") or ""
    tags = [line.split()[1] for line in wheel.splitlines() if line.startswith("Tag:")]
    assert len(tags) == 1 and tags[0].startswith("py3-none-manylinux_")


@installed
def test_the_command_is_installed() -> None:
    command = Path(sysconfig.get_path("scripts")) / "headrace"
    for start in ([str(command)], [sys.executable, "-m", "headrace"]):
        helped = subprocess.run([*start, "--help"], capture_output=True, text=True, timeout=60)
        assert helped.returncode == 0 and "info" in helped.stdout
        wrong = subprocess.run([*start, "--no-such-flag"], capture_output=True, text=True, timeout=60)
        assert wrong.returncode == 2 and wrong.stderr.startswith("headrace: ")


@installed
def test_output_to_a_closed_stdout_is_an_error(tmp_path: Path) -> None:
    write_array(tmp_path / "a", np.zeros((2, 2), np.uint8), (2, 2))
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "headrace"]
    info = subprocess.run([*closed, "info", str(tmp_path / "a")], stderr=subprocess.PIPE, text=True, timeout=60)
    assert info.returncode == 1 and info.stderr.startswith("headrace: ")
    silent = subprocess.run([*closed, "read", str(tmp_path / "a"), "-o", str(tmp_path / "a.npy")], timeout=60)
    assert silent.returncode == 0 and (tmp_path / "a.npy").exists()
    unwanted = subprocess.run(
        [sys.executable, "-m", "headrace", "info", str(tmp_path / "a")], stdout=subprocess.DEVNULL, timeout=60
    )
    assert unwanted.returncode == 0
