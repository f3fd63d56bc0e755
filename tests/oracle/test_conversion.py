"""Every source type to every output type, at its boundaries, against numpy and exact integers."""

import ml_dtypes
import numpy as np
import pytest

import handmade as h
import oracles
import values as v
from conftest import check

OUTPUTS = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"]
NUMPY = {
    "bf16": np.dtype(ml_dtypes.bfloat16),
    **{n: np.dtype(f"{n[0]}{int(n[1:]) // 8}") for n in OUTPUTS if n != "bf16"},
}
SOURCES = ["bool", *v.INTEGERS, "float16", "bfloat16", "float32", "float64"]


def edges(name: str) -> np.ndarray:
    """Values around every limit that a conversion knows."""
    dtype = v.numpy_dtype(name)
    if name == "bool":
        return np.array([False, True])
    powers = [s * (2**k + d) for k in (0, 7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64) for d in (-1, 0, 1) for s in (1, -1)]
    powers += [65504, 65519, 65520, 65521, 2049, 2051, 16777217, 16777219, 33554435]
    if name in v.INTEGERS:
        info = np.iinfo(name)
        inside = [n for n in powers if info.min <= n <= info.max]
        return np.array(sorted({0, int(info.min), int(info.max), *inside}), dtype)
    fractions = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        0.999,
        -0.999,
        1.5,
        -1.5,
        1.9,
        -1.9,
        12.9,
        254.5,
        255.5,
        1e-40,
        6e-8,
        2.98e-8,
        3e-8,
        1e30,
    ]
    special = [np.inf, -np.inf, np.nan, 3.4028235e38, 3.4028236e38, 1e300, 65519.99, 65520.0, 3.3895314e38, 3.3961776e38]
    with np.errstate(over="ignore"):
        wide = np.array([float(p) for p in powers] + fractions + special)
        exact = wide.astype(dtype) if name != "bfloat16" else wide.astype(np.float32).astype(dtype)
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[dtype.itemsize]
    raw = exact.view(bits)
    return np.concatenate([raw, raw + bits(1), raw - bits(1)]).view(dtype)


def to_integer(x: np.ndarray, to: np.dtype) -> np.ndarray:
    """Exact: Python's integers know no overflow."""
    info = np.iinfo(to)
    if x.dtype.kind in "iub":
        return np.array([min(max(int(n), info.min), info.max) for n in x], to)
    result = []
    for n in x.astype(np.float64):
        if np.isnan(n):
            result.append(0)
        elif np.isinf(n):
            result.append(info.max if n > 0 else info.min)
        else:
            result.append(min(max(int(n), info.min), info.max))
    return np.array(result, to)


def convert(x: np.ndarray, to: str) -> np.ndarray:
    """The rules of the documentation, by numpy and ml_dtypes."""
    dtype = NUMPY[to]
    with np.errstate(all="ignore"):
        if dtype.kind in "iu":
            return to_integer(x, dtype)
        if x.dtype == NUMPY["bf16"]:
            x = x.astype(np.float32)  # exact
        if to == "bf16":
            return x.astype(np.float32).astype(dtype)
        return x.astype(dtype)


def equal_up_to_nan(got: np.ndarray, want: np.ndarray, what: str) -> None:
    """Byte-exact, save that any quiet NaN stands for any NaN."""
    nan = np.isnan(want.astype(np.float64)) if want.dtype.kind not in "iub" else np.zeros(want.shape, bool)
    if nan.any():
        assert np.isnan(got[nan].astype(np.float64)).all(), f"{what}: a NaN was lost"
        got, want = got.copy(), want.copy()
        got[nan] = want[nan] = 0
    check(got, want, what)


def stream(package, path, n: int, **settings) -> np.ndarray:
    with package.Pipeline(package.Config(shape=(n,), batch_size=1, **settings), device="cpu") as p:
        p.push(package.Sample(path, [(0, n)]))
        return p.pop().numpy()[0].copy()


def lay(path, name: str, data: np.ndarray, big: bool) -> None:
    metadata = h.v3_metadata(data, [len(data)], [h.BIG if big else h.LITTLE]) | {"data_type": name}
    oracles.lay(path, metadata)
    raw = data.view(f"u{data.dtype.itemsize}")
    h.put(path, "c/0", raw.astype(raw.dtype.newbyteorder(">" if big else "<")).tobytes())


@pytest.mark.parametrize("to", OUTPUTS)
@pytest.mark.parametrize("source", SOURCES)
def test_conversion(source: str, to: str, tmp_path, package) -> None:
    data = edges(source)
    for big in (False, True):
        lay(tmp_path / str(big), source, data, big)
        got = stream(package, tmp_path / str(big), len(data), dtype=to)
        equal_up_to_nan(got.view(NUMPY[to]), convert(data, to), f"{source} to {to}, big {big}")


FACTORS = [(0.1, -3.7), (-2.0, 0.5), (1 / 3, 1e6), (1e20, 0.0), (0.0, 7.0)]


@pytest.mark.parametrize("to", OUTPUTS)
@pytest.mark.parametrize("source", SOURCES)
def test_scaled(source: str, to: str, tmp_path, package) -> None:
    """float64(v) * scale, rounded, + offset, rounded, then the rule of a float64 source."""
    data = edges(source)
    lay(tmp_path, source, data, False)
    for scale, offset in FACTORS:
        got = stream(package, tmp_path, len(data), dtype=to, scale=scale, offset=offset)
        with np.errstate(all="ignore"):
            scaled = data.astype(np.float64) * scale
            want = convert(scaled + offset, to)
        equal_up_to_nan(got.view(NUMPY[to]), want, f"{source} * {scale} + {offset} to {to}")


def test_the_examples_of_the_documentation(tmp_path, package) -> None:
    lay(tmp_path / "a", "int16", np.array([-1, 12, 256], "<i2"), False)
    assert stream(package, tmp_path / "a", 3, dtype="u8").tolist() == [0, 12, 255]
    lay(tmp_path / "b", "float32", np.array([-1.9, 12.9, np.nan, np.inf], "<f4"), False)
    assert stream(package, tmp_path / "b", 4, dtype="i16").tolist() == [-1, 12, 0, 32767]


@pytest.mark.parametrize("source", ["complex64", "complex128"])
def test_complex_has_no_other_type(source: str, tmp_path, package) -> None:
    data = np.array([1 + 2j, 3 - 4j], v.numpy_dtype(source))
    oracles.lay(tmp_path, h.v3_metadata(data, [2], [h.LITTLE], fill_value=[0, 0]))
    h.put(tmp_path, "c/0", data.tobytes())
    check(stream(package, tmp_path, 2), data, source)
    with pytest.raises(package.HeadraceError) as caught:
        stream(package, tmp_path, 2, dtype="f32")
    assert caught.value.kind == "shape"


def test_missing_chunks_are_scaled_and_padding_is_not(tmp_path, package) -> None:
    """Fill is data: scaled and converted alike. Padding is in output units."""
    data = np.full(4, 10, "<i2")
    oracles.lay(tmp_path, h.v3_metadata(data, [4], [h.LITTLE], fill_value=10))
    config = package.Config(shape=(6,), batch_size=1, dtype="f32", scale=0.5, offset=1.0, pad="fill", pad_value=-3.0)
    with package.Pipeline(config, device="cpu") as p:
        p.push(package.Sample(tmp_path, [(-1, 5)]))
        assert p.pop().numpy()[0].tolist() == [-3, 6, 6, 6, 6, -3]


@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_padding_is_numpys(mode: str, tmp_path, package, rng) -> None:
    """`reflect` folds as often as needed; an axis of extent 1 repeats."""
    data = rng.integers(0, 1000, (5, 1, 3)).astype("<i4")
    h.write_v3(tmp_path, h.v3_metadata(data, [2, 1, 2], [h.LITTLE]), data, lambda raw: raw)
    config = package.Config(shape=(30, 4, 11), batch_size=1, pad=mode)
    with package.Pipeline(config, device="cpu") as p:
        p.push(package.Sample(tmp_path, [(-12, 18), (-1, 3), (-4, 7)]))
        want = np.pad(data, ((12, 13), (1, 2), (4, 4)), mode=mode)
        check(p.pop().numpy()[0], want, mode)
