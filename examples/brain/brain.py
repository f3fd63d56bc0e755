"""Random 3-D crops of a brain and its label map, streamed into batches.

    brain.py [--data DIR] [--montage FILE] [--samples N]

1. fetch: unpacks Debian's package mricron-data, which holds the MRI template "ch2"
   and the AAL label map on the same grid (apt only downloads, nothing is installed).
2. write: both volumes as OME-Zarr, version 0.4 (zarr v2, blosc-zstd) and 0.5 (zarr v3,
   sharded, zstd), with two levels of resolution.
3. stream: random crops of image and labels through headrace.Loader, from both versions.
4. montage: middle slices of one batch as a picture.
"""

import argparse
import colorsys
import gzip
import struct
import subprocess
import time
from pathlib import Path

import numcodecs
import numpy as np
import zarr
from PIL import Image
from zarr.codecs import ZstdCodec

import headrace as hr

PACKAGE = "mricron-data"
TEMPLATES = "usr/share/mricron/templates"
LABELS = "aal"
CROP = (64, 96, 96)
VERSIONS = ("0.4", "0.5")
BATCH = 8


def fetch(data: Path) -> Path:
    """The folder with the templates: the installed package's, or one unpacked below data."""
    for root in (Path("/"), data / "deb"):
        if (root / TEMPLATES / "ch2.nii.gz").exists():
            return root / TEMPLATES
    data.mkdir(parents=True, exist_ok=True)
    if subprocess.run(["apt-get", "download", "-q", PACKAGE], cwd=data).returncode:
        raise SystemExit(f"apt-get cannot download {PACKAGE}: run apt-get update first, on a Debian or Ubuntu machine")
    archive = next(data.glob(f"{PACKAGE}_*.deb"))
    subprocess.run(["dpkg", "-x", archive, data / "deb"], check=True)
    return data / "deb" / TEMPLATES


NIFTI_TYPES = {2: "u1", 4: "i2", 8: "i4", 16: "f4", 512: "u2"}


def nifti(path: Path) -> tuple[np.ndarray, list[float]]:
    """A NIfTI-1 volume with axes z, y, x, and the extents of a voxel in millimetres."""
    raw = gzip.decompress(path.read_bytes())
    order = "<" if struct.unpack_from("<i", raw)[0] == 348 else ">"
    dims = struct.unpack_from(f"{order}8h", raw, 40)
    (code,) = struct.unpack_from(f"{order}h", raw, 70)
    voxel = struct.unpack_from(f"{order}8f", raw, 76)
    (offset,) = struct.unpack_from(f"{order}f", raw, 108)
    shape = dims[1:4][::-1]  # x runs fastest in the file
    volume = np.frombuffer(raw, order + NIFTI_TYPES[code], int(np.prod(shape)), int(offset)).reshape(shape)
    return volume.astype(volume.dtype.newbyteorder("<")), [float(v) for v in voxel[1:4][::-1]]


def halved(volume: np.ndarray, labels: bool) -> np.ndarray:
    """Half the resolution: labels keep every second voxel, an image is averaged."""
    even = volume[tuple(slice(0, n - n % 2) for n in volume.shape)]
    if labels:
        return even[::2, ::2, ::2].copy()
    z, y, x = (n // 2 for n in even.shape)
    return even.reshape(z, 2, y, 2, x, 2).mean((1, 3, 5)).round().astype(volume.dtype)


def multiscales(name: str, voxel: list[float], version: str) -> dict:
    """The OME metadata of an image with two levels."""
    levels = []
    for i in range(2):
        scale = {"type": "scale", "scale": [v * 2**i for v in voxel]}
        levels.append({"path": str(i), "coordinateTransformations": [scale]})
    axes = [{"name": n, "type": "space", "unit": "millimeter"} for n in "zyx"]
    return {"name": name, "version": version, "axes": axes, "datasets": levels}


def write_image(group: zarr.Group, name: str, volume: np.ndarray, voxel: list[float], version: str, labels: bool) -> None:
    """One image of two levels into a group."""
    metadata: dict = {"multiscales": [multiscales(name, voxel, version)]}
    if labels:
        metadata["image-label"] = {"version": version, "source": {"image": "../../"}}
    if version == "0.4":
        blosc = numcodecs.Blosc("zstd", clevel=5, shuffle=numcodecs.Blosc.SHUFFLE)
        options: dict = {"chunks": (32, 64, 64), "compressors": blosc}
        options["chunk_key_encoding"] = {"name": "v2", "separator": "/"}
    else:
        del metadata["multiscales"][0]["version"]
        metadata = {"ome": metadata | {"version": version}}
        options = {"chunks": (16, 32, 32), "shards": (64, 128, 128), "compressors": ZstdCodec(level=5)}
        options["dimension_names"] = ["z", "y", "x"]
    group.attrs.update(metadata)
    for level, array in enumerate((volume, halved(volume, labels))):
        group.create_array(str(level), data=array, **options)


def write(root: Path, version: str, image: np.ndarray, labels: np.ndarray, voxel: list[float]) -> None:
    """An OME-Zarr of one version: the image at its root, the label map below labels/."""
    top = zarr.create_group(str(root), zarr_format=2 if version == "0.4" else 3, overwrite=True)
    write_image(top, "ch2", image, voxel, version, labels=False)
    folder = top.create_group("labels")
    folder.attrs.update({"labels": [LABELS]} if version == "0.4" else {"ome": {"version": version, "labels": [LABELS]}})
    write_image(folder.create_group(LABELS), LABELS, labels, voxel, version, labels=True)


def crops_of(root: Path, samples: int) -> hr.Crops:
    """Random crops of the finest level of image and labels, at the same places."""
    return hr.random_crops({"image": root / "0", "labels": root / "labels" / LABELS / "0"}, shape=CROP, count=samples, seed=3)


def stream(root: Path, samples: int, image: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Streams an epoch; the result is the first batch. A whole read is compared with the volumes."""
    for path, volume in ((root / "0", image), (root / "labels" / LABELS / "0", labels)):
        with hr.open(path) as array:
            assert np.array_equal(array[...], volume), f"{path} is not the volume that was written"
    dtypes = {"image": "f32", "labels": "u8"}
    scale = {"image": 1 / 255, "labels": None}
    first, count, nbytes, begin = None, 0, 0, time.perf_counter()
    with hr.Loader(crops_of(root, samples), batch_size=BATCH, dtype=dtypes, scale=scale, seed=1, device="cpu") as loader:
        for batch in loader:
            count += len(batch.ids)
            nbytes += sum(tensor.nbytes for tensor in batch.values())
            if first is None:
                first = batch["image"].numpy().copy(), batch["labels"].numpy().copy()
    seconds = time.perf_counter() - begin
    rate = f"{count / seconds:.0f} samples/s, {nbytes / seconds / 1e9:.2f} GB/s"
    print(f"{root.name}: {count} samples of {CROP} in {seconds:.2f} s, {rate}")
    assert first is not None and count == samples
    return first


def palette() -> np.ndarray:
    """A colour for each label; neighbours in number differ in hue. Label 0 is black."""
    colours = [colorsys.hsv_to_rgb(i * 0.618 % 1, 0.75, 1.0) for i in range(256)]
    return np.array([(0, 0, 0), *colours[1:]], np.float32)


def montage(image: np.ndarray, labels: np.ndarray, zoom: int = 2) -> Image.Image:
    """Middle slices of a batch: the image above, the image with its labels below."""
    z = image.shape[1] // 2
    bright = (image[:, z, ::-1, :, None] * 1.7).clip(0, 1)  # y points up
    grey = np.repeat(bright, 3, axis=-1)
    colour = palette()[labels[:, z, ::-1]]
    mixed = np.where(labels[:, z, ::-1, :, None] > 0, 0.55 * grey + 0.45 * colour, grey)
    rows = [np.concatenate([np.pad(s, ((2, 2), (2, 2), (0, 0))) for s in row], axis=1) for row in (grey, mixed)]
    pixels = (np.concatenate(rows).clip(0, 1) * 255).astype(np.uint8)
    return Image.fromarray(pixels.repeat(zoom, 0).repeat(zoom, 1))


def main() -> None:
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=root / "data" / "brain")
    parser.add_argument("--montage", type=Path, help="default: brain.png in --data")
    parser.add_argument("--samples", type=int, default=400)
    options = parser.parse_args()
    picture = options.montage or options.data / "brain.png"

    templates = fetch(options.data)
    image, voxel = nifti(templates / "ch2.nii.gz")
    labels, _ = nifti(templates / f"{LABELS}.nii.gz")
    batches = []
    for version in VERSIONS:
        path = options.data / f"brain-{version}.zarr"
        write(path, version, image, labels, voxel)
        batches.append(stream(path, options.samples, image, labels))
    picture.parent.mkdir(parents=True, exist_ok=True)
    montage(*batches[-1]).save(picture, optimize=True)
    print(f"montage of a batch: {picture}")


if __name__ == "__main__":
    main()
