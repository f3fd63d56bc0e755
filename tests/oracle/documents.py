"""Array documents over the feature table: one for each index, the same for the same seed.

Features are cycled with lists of different lengths, so that a few hundred
documents meet every feature many times and most pairs of features.
"""

from dataclasses import dataclass, field

import numpy as np

import values as v

ORDERS = {1: 500, 2: 45, 3: 22, 4: 10, 5: 6}


@dataclass
class Document:
    """One array to make: its metadata, its values' kind, and what it is about."""

    name: str
    version: int
    dtype: str
    metadata: dict
    kind: str
    fill: object
    lossy: bool = False
    writer: str = "zarr"
    features: list[str] = field(default_factory=list)

    @property
    def shape(self) -> list[int]:
        return self.metadata["shape"]

    @property
    def chunk(self) -> list[int]:
        if self.version == 2:
            return self.metadata["chunks"]
        return self.metadata["chunk_grid"]["configuration"]["chunk_shape"]


def geometry(i: int, rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """A shape and a chunk shape; some axes end inside a chunk, some chunks exceed the array."""
    rank = [3, 2, 4, 1, 3, 0, 5, 2, 3, 1][i % 10]
    limit = ORDERS.get(rank, 1)
    shape = [int(rng.integers(1, limit + 1)) for _ in range(rank)]
    chunk = []
    for n in shape:
        mode = rng.integers(0, 6)
        chunk.append(n if mode == 0 else n + 3 if mode == 1 else int(rng.integers(max(1, n // 4), n + 1)))
    if rank > 1 and i % 23 == 7:
        shape[int(rng.integers(rank))] = 0
    return shape, chunk


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def blosc_v3(i: int, itemsize: int) -> dict:
    names = ["lz4", "zstd", "lz4hc", "blosclz", "zlib"]
    shuffles = ["shuffle", "bitshuffle", "noshuffle"]
    configuration = {
        "cname": names[i % 5],
        "shuffle": shuffles[i % 3],
        "clevel": [5, 1, 9, 0, 3, 7][i % 6],
        "typesize": itemsize,
        "blocksize": [0, 256, 0, 1024][i % 4],
    }
    return {"name": "blosc", "configuration": configuration}


def compressors_v3(i: int, itemsize: int) -> list[list[dict]]:
    """Chains of bytes->bytes codecs; the first 13 are read by tensorstore too."""
    zstd = {"name": "zstd", "configuration": {"level": [0, 3, 19, -5][i % 4], "checksum": i % 2 == 0}}
    gzip = {"name": "gzip", "configuration": {"level": i % 10}}
    crc = {"name": "crc32c"}
    return [
        [],
        [zstd],
        [blosc_v3(i, itemsize)],
        [gzip],
        [crc],
        [blosc_v3(i + 1, itemsize)],
        [zstd, crc],
        [blosc_v3(i + 2, itemsize), crc],
        [blosc_v3(i + 3, itemsize)],
        [crc, zstd],
        [gzip, zstd],
        [blosc_v3(i + 4, itemsize)],
        [zstd],
        [{"name": "numcodecs.shuffle", "configuration": {"elementsize": itemsize}}, zstd],
        [{"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}],
        [{"name": "numcodecs.zlib", "configuration": {"level": 4}}],
        [{"name": "numcodecs.blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}}],
    ]


SHARED_COMPRESSORS = 13


def scale_offset(short: str) -> dict:
    """Parameters that no value of kind smooth overflows."""
    return {"offset": 0, "scale": 2} if short[0] == "u" else {"offset": -3, "scale": 1}


def filters_v3(i: int, dtype: str) -> tuple[dict | None, bool]:
    """An array->array codec that changes values, where the type has one, and whether it loses bits."""
    short = v.V2_LETTERS.get(dtype, "")
    if dtype in v.INTEGERS:
        options = [("delta", {"dtype": "<" + short})]
        # zarr-python does not read one-byte types that a filter has widened.
        if short[1] != "1":
            options += [
                ("fixedscaleoffset", scale_offset(short) | {"dtype": "<" + short, "astype": "<i8"}),
                ("astype", {"encode_dtype": "<" + short[0] + "8", "decode_dtype": "<" + short}),
            ]
    elif dtype in v.FLOATS:
        options = [
            ("bitround", {"keepbits": 7}),
            ("quantize", {"digits": 2, "dtype": "<" + short}),
            ("fixedscaleoffset", {"offset": 5, "scale": 10, "dtype": "<" + short, "astype": "<i2"}),
            ("astype", {"encode_dtype": "<f8", "decode_dtype": "<" + short}),
            ("delta", {"dtype": "<" + short}),
        ]
    elif dtype == "bool":
        options = [("packbits", {})]
    else:
        return None, False
    name, configuration = options[i % len(options)]
    lossy = dtype in v.FLOATS
    return {"name": "numcodecs." + name, "configuration": configuration}, lossy


def permutation(rank: int, rng: np.random.Generator) -> dict:
    return {"name": "transpose", "configuration": {"order": [int(a) for a in rng.permutation(rank)]}}


def endian(i: int, dtype: str) -> dict:
    if v.numpy_dtype(dtype).itemsize == 1 and i % 2:
        return {"name": "bytes"}
    return {"name": "bytes", "configuration": {"endian": "big" if i % 4 == 3 else "little"}}


def index_codecs(i: int, rank: int) -> list[dict]:
    order = "big" if i % 3 == 2 else "little"
    chain: list[dict] = [{"name": "bytes", "configuration": {"endian": order}}]
    if i % 5 == 4:
        chain.insert(0, {"name": "transpose", "configuration": {"order": [rank, *range(rank)]}})
    if i % 2 == 0:
        chain.append({"name": "crc32c"})
    return chain


def shard(i: int, outer: list[int], leaf: list[dict], rng: np.random.Generator, depth: int = 1) -> dict:
    inner = [int(rng.choice(divisors(n))) for n in outer]
    codecs = leaf if depth == 1 else [shard(i + 1, inner, leaf, rng, depth - 1)]
    configuration = {
        "chunk_shape": inner,
        "codecs": codecs,
        "index_codecs": index_codecs(i, len(outer)),
        "index_location": "start" if i % 4 == 1 else "end",
    }
    return {"name": "sharding_indexed", "configuration": configuration}


def permute(codec: dict, shape: list[int]) -> list[int]:
    return [shape[a] for a in codec["configuration"]["order"]]


def v3(i: int, rng: np.random.Generator) -> Document:
    dtype = v.V3_DTYPES[i % len(v.V3_DTYPES)]
    shape, chunk = geometry(i, rng)
    rank = len(shape)
    itemsize = v.numpy_dtype(dtype).itemsize
    fill_json, fill = (options := v.fills(dtype, True))[i % len(options)]
    features = []
    only_zarr = dtype in ("datetime64", "timedelta64")
    only_tensorstore = dtype == "bfloat16"

    sharded = rank > 0 and i % 5 in (1, 3)
    permuted = sharded and rank > 1 and i % 3 == 1 and not only_zarr
    # zarr-python compares the shard's inner shape with the chunk before the transpose.
    only_tensorstore |= permuted
    chains = compressors_v3(i, itemsize)
    chain = chains[i % (SHARED_COMPRESSORS if only_tensorstore else len(chains))]
    leaf = [endian(i, dtype), *chain]
    kind = ["noise", "smooth", "sparse", "steps"][i % 4]
    lossy = False
    if i % 7 in (2, 5) and not only_tensorstore:
        filter_codec, lossy = filters_v3(i, dtype)
        if filter_codec:
            # zarr-python applies these to little-endian elements only.
            leaf[0] = {"name": "bytes", "configuration": {"endian": "little"}}
            leaf.insert(0, filter_codec)
            features.append(filter_codec["name"])
            kind = "smooth"
    # After a transpose the filters of zarr-python take elements in memory order and misread their own arrays.
    filtered = any(f.startswith("numcodecs.") for f in features)
    if rank > 1 and i % 4 == 2 and not filtered:
        leaf.insert(0, permutation(rank, rng))
        features.append("transpose")
    codecs = leaf
    if sharded:
        features.append("sharded")
        outer, before = chunk, []
        if permuted:
            before = [permutation(rank, rng)]
            outer = permute(before[0], chunk)
            features.append("transpose before sharding")
        depth = 2 if i % 9 == 4 or i % 15 == 1 else 1
        codecs = [*before, shard(i, outer, leaf, rng, depth)]
        if i % 4 == 3 and not only_tensorstore:
            codecs.append([{"name": "crc32c"}, {"name": "gzip", "configuration": {"level": 1}}][i % 2])
            features.append("codec around the shard")
        features += ["nested"] * (depth - 1)
    features += [c["name"] for c in chain]
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": v.v3_data_type(dtype),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": key_encoding(i),
        "fill_value": fill_json,
        "codecs": codecs,
        "attributes": {"i": i},
    }
    if i % 6 == 2 and not only_tensorstore:
        metadata["dimension_names"] = [None if a == 1 else "xyzct"[a] for a in range(rank)]
    if i % 8 == 4:
        metadata["storage_transformers"] = []
    shared = not only_zarr and not any(c["name"].startswith("numcodecs.") for c in leaf)
    writer = (
        "tensorstore" if only_tensorstore or (shared and i % 3 == 0 and "codec around the shard" not in features) else "zarr"
    )
    return Document(f"v3-{i:03d}-{dtype}", 3, dtype, metadata, kind, fill, lossy, writer, features)


def key_encoding(i: int) -> dict:
    return [
        {"name": "default", "configuration": {"separator": "/"}},
        {"name": "default"},
        {"name": "default", "configuration": {"separator": "."}},
        {"name": "v2"},
        {"name": "v2", "configuration": {"separator": "/"}},
    ][i % 5]


def compressor_v2(i: int) -> dict | None:
    blosc = {"id": "blosc", "cname": ["lz4", "zstd", "lz4hc", "blosclz", "zlib"][i % 5], "clevel": [5, 1, 9, 0, 3, 7][i % 6]}
    blosc |= {"shuffle": [1, 2, 0, -1][i % 4], "blocksize": [0, 512, 0][i % 3]}
    return [
        None,
        blosc,
        {"id": "zstd", "level": [0, 3, 19][i % 3]},
        {"id": "zlib", "level": i % 10},
        {"id": "gzip", "level": i % 10},
        blosc,
        {"id": "lz4", "acceleration": 1},
        blosc,
    ][i % 8]


def filters_v2(i: int, dtype: str, big: bool) -> tuple[list[dict] | None, bool]:
    if i % 5 not in (2, 4):
        return (None if i % 2 else []), False
    short = v.V2_LETTERS[dtype]
    order = ">" if big else "<"
    shuffle = {"id": "shuffle", "elementsize": v.numpy_dtype(dtype).itemsize}
    if dtype in v.INTEGERS:
        delta = {"id": "delta", "dtype": order + short, "astype": order + short}
        scaled = {"id": "fixedscaleoffset"} | scale_offset(short) | {"dtype": order + short, "astype": "<i8"}
        wider = {"id": "astype", "encode_dtype": "<" + short[0] + "8", "decode_dtype": order + short}
        return [[delta], [scaled], [wider], [delta, shuffle], [shuffle]][i % 5 // 2 + i % 3], False
    if dtype in v.FLOATS:
        rounded = {"id": "bitround", "keepbits": 6}
        scaled = {"id": "fixedscaleoffset", "offset": 5, "scale": 10, "dtype": order + short, "astype": "<i2"}
        quantized = {"id": "quantize", "digits": 2, "dtype": order + short, "astype": order + short}
        if big:
            return [[scaled], [quantized]][i % 2], True
        return [[rounded], [scaled], [quantized], [scaled, {"id": "delta", "dtype": "<i2"}]][i % 4], True
    if dtype == "bool":
        return [{"id": "packbits"}], False
    return [shuffle], False


def v2(i: int, rng: np.random.Generator) -> Document:
    dtype = v.V2_DTYPES[i % len(v.V2_DTYPES)]
    shape, chunk = geometry(i, rng)
    big = i % 3 == 1
    options = [(None, 0), *v.fills(dtype, False)]
    fill_json, fill = options[i % len(options)]
    filters, lossy = filters_v2(i, dtype, big)
    kind = ["noise", "smooth", "sparse", "steps"][i % 4]
    if filters:
        kind = "smooth"
    metadata: dict = {
        "zarr_format": 2,
        "shape": shape,
        "chunks": chunk,
        "dtype": v.typestr(dtype, big),
        "compressor": compressor_v2(i),
        "fill_value": fill_json,
        "order": "F" if i % 4 in (1, 2) else "C",
        "filters": filters,
    }
    if i % 3 != 2:
        metadata["dimension_separator"] = "./"[i % 2]
    features = [(metadata["compressor"] or {"id": "raw"})["id"], metadata["order"], *(f["id"] for f in filters or [])]
    # tensorstore has neither times nor filters nor bare lz4.
    shared = not filters and dtype not in ("datetime64", "timedelta64") and features[0] not in ("lz4",) and fill_json != "NaT"
    writer = "tensorstore" if shared and i % 3 == 0 else "zarr"
    return Document(f"v2-{i:03d}-{dtype}", 2, dtype, metadata, kind, fill, lossy, writer, features)
