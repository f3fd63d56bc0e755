"""Writes golden.json: the order, the crops and the fingerprints of doc.go, in
plain Python, written from the specification and not from the Go code.

Run: python3 golden.py > golden.json. The output must never change: states that
users have stored depend on it.
"""

import hashlib
import itertools
import json
import math
import struct
import zlib

MASK = (1 << 64) - 1


def u64(x):
    return struct.pack("<Q", x & MASK)


def text(s):
    raw = s if isinstance(s, bytes) else s.encode()
    return u64(len(raw)) + raw


def numbers(xs):
    return u64(len(xs)) + b"".join(u64(x) for x in xs)


def words(key):
    j = 0
    while True:
        block = hashlib.sha256(b"headrace/words/1\0" + key + u64(j)).digest()
        yield from struct.unpack("<4Q", block)
        j += 1


def below(source, m):
    while True:
        product = next(source) * m
        if product % 2**64 >= (2**64 - m) % m:
            return product // 2**64


def mix(x):
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def epoch_key(fingerprint, n, seed, epoch):
    data = b"headrace/order/1\0" + text(fingerprint) + u64(n) + u64(seed) + u64(epoch)
    return hashlib.sha256(data).digest()


def order(n, key):
    """A function from position to sample."""
    source = words(key)
    if n <= 1024:
        table = list(range(n))
        for i in range(n - 1, 0, -1):
            j = below(source, i + 1)
            table[i], table[j] = table[j], table[i]
        return table.__getitem__

    a = math.isqrt(n - 1) + 1
    b = -(-n // a)
    keys = [next(source) for _ in range(12)]

    def f(x, m):
        return mix(x) * m >> 64

    def network(x):
        right, left = divmod(x, a)
        for r, k in enumerate(keys):
            if r % 2 == 0:
                left = (left + f(right ^ k, a)) % a
            else:
                right = (right + f(left ^ k, b)) % b
        return left + a * right

    def at(p):
        x = network(p)
        while x >= n:
            x = network(x)
        return x

    return at


def block_order(sizes, window, key):
    """A function from position to sample: blocks shuffled, then each window."""
    count = len(sizes)
    starts = [sum(sizes[:b]) for b in range(count)]
    shuffled = order(count, hashlib.sha256(b"headrace/blocks/1\0" + key).digest())
    blocks = [shuffled(j) for j in range(count)]

    def at(p):
        first = 0
        for w, j in enumerate(range(0, count, window)):
            shelf = [s for b in blocks[j : j + window] for s in range(starts[b], starts[b] + sizes[b])]
            if p < first + len(shelf):
                within = order(len(shelf), hashlib.sha256(b"headrace/window/1\0" + key + u64(w)).digest())
                return shelf[within(p - first)]
            first += len(shelf)

    return at


def locality(sizes, window, key, fp, nodes, groups, batch):
    """The positions of each group in the batch (start, stop)."""
    k0, k1 = struct.unpack("<2Q", hashlib.sha256(b"headrace/homes/1\0" + text(fp)).digest()[:16])

    def choose(b, room):
        scores = [mix(mix(b + k0 & MASK) ^ mix(v + k1 & MASK)) for v in range(nodes)]
        return max((v for v in range(nodes) if room[v]), key=lambda v: (scores[v], -v), default=None)

    count = len(sizes)
    shuffled = order(count, hashlib.sha256(b"headrace/blocks/1\0" + key).digest())
    blocks = [shuffled(j) for j in range(count)]
    home = {}
    for j in range(0, count, window):
        members = blocks[j : j + window]
        most = -(-sum(sizes[b] for b in members) // nodes)
        load = [0] * nodes
        for whole in (True, False):
            for b in members:
                if b in home:
                    continue
                need = sizes[b] if whole else 1
                v = choose(b, [load[v] + need <= most for v in range(nodes)])
                if v is not None:
                    home[b] = v
                    load[v] += sizes[b]
    at = block_order(sizes, window, key)
    ends = list(itertools.accumulate(sizes))
    block_of = {p: next(b for b, e in enumerate(ends) if at(p) < e) for p in range(*batch)}
    g = batch[1] - batch[0]
    slices = [g * (r + 1) // groups - g * r // groups for r in range(groups)]
    per_node = groups // nodes
    room = [sum(slices[v * per_node : (v + 1) * per_node]) for v in range(nodes)]
    node = {}
    for p in range(*batch):
        v = home[block_of[p]]
        if room[v]:
            node[p], room[v] = v, room[v] - 1
    for p in range(*batch):
        if p not in node:
            v = choose(block_of[p], room)
            node[p], room[v] = v, room[v] - 1
    parts = []
    for v in range(nodes):
        mine = [p for p in range(*batch) if node[p] == v]
        for n in slices[v * per_node : (v + 1) * per_node]:
            parts.append(mine[:n])
            mine = mine[n:]
    return parts


def crops(config, i):
    """The window of sample i: group, starts and flipped axes."""
    k = hashlib.sha256(b"headrace/crops/1\0" + u64(config["seed"])).digest()
    k0, k1 = struct.unpack("<2Q", k[:16])
    state = mix(k0 + mix(k1 ^ i) & MASK)

    def source():
        t = 0
        while True:
            yield mix(state + (t + 1) * 0x9E3779B97F4A7C15 & MASK)
            t += 1

    draw = source()
    shapes = config["shapes"]
    if config["weight"] == "equal":
        group = below(draw, len(shapes))
    else:
        element = below(draw, sum(math.prod(s) for s in shapes))
        group = 0
        while element >= math.prod(shapes[group]):
            element -= math.prod(shapes[group])
            group += 1
    start = [below(draw, e - c + 1) for e, c in zip(shapes[group], config["crop"])]
    flip = [axis for axis in config["flips"] if below(draw, 2)]
    return {"i": i, "group": group, "start": start, "flip": flip}


def grid_by_shard(g):
    """All crops (group, start) of a shifted grid, and the number in each shard."""
    crops_of = {}
    for group, (shape, shard) in enumerate(zip(g["shapes"], g["shards"])):
        axes = []
        for extent, crop, stride in zip(shape, g["crop"], g["stride"]):
            starts = list(range(0, extent - crop + 1, stride))
            if starts[-1] + crop < extent:
                starts.append(extent - crop)
            axes.append(starts)
        for start in itertools.product(*axes):
            key = (group, *(s // n for s, n in zip(start, shard)))
            crops_of.setdefault(key, []).append([group, *start])
    return [c for key in sorted(crops_of) for c in crops_of[key]], [len(crops_of[key]) for key in sorted(crops_of)]


def whole_weights(weights, k):
    return [max(round(w / max(weights) * 2**k), w > 0) for w in weights]


def apportion(count, weights):
    quotas = [divmod(count * w, sum(weights)) for w in weights]
    shares = [q for q, _ in quotas]
    order = sorted(range(len(weights)), key=lambda i: -quotas[i][1])
    for i in order[: count - sum(shares)]:
        shares[i] += 1
    return shares


def mix_origin(mix, epoch, i):
    """The part and the part's sample of index i."""
    parts, sizes = list(range(len(mix["shares"]))), mix["shares"]
    n = sum(sizes)
    while len(parts) > 1:
        half = len(parts) // 2
        second = sum(sizes[p] for p in parts[half:])
        b = i * second // n
        if (i + 1) * second // n > b:
            parts, n, i = parts[half:], second, b
        else:
            parts, n, i = parts[:half], n - second, i - b
    k = parts[0]
    length = mix["lengths"][k]
    number, place = divmod(epoch * sizes[k] + i, length)
    number %= 2**64
    key = epoch_key(mix["fingerprints"][k], length, mix["seed"], number)
    return k, order(length, hashlib.sha256(b"headrace/mix/1\0" + key + u64(k)).digest())(place)


def weighted_origins(w, epoch):
    whole = whole_weights(w["weights"], 32)
    key = hashlib.sha256(b"headrace/weighted/1\0" + epoch_key(w["fingerprint"], w["count"], w["seed"], epoch)).digest()
    offset = below(words(key), sum(whole))
    ends = list(itertools.accumulate(whole))
    points = [(i * ends[-1] + offset) // w["count"] for i in range(w["count"])]
    return [next(s for s, e in enumerate(ends) if e > p) for p in points]


def fingerprint(kind, parameters):
    return hashlib.sha256(b"headrace/source/1\0" + text(kind) + parameters).hexdigest()[:32]


def plan(p):
    data = b"headrace/plan/1\0" + text(p["fingerprint"]) + u64(p["n"]) + u64(p["global"]) + u64(p["seed"])
    data += u64(p["shuffle"]) + text(p["tail"]) + u64(p["block"]) + u64(p["window"]) + numbers(p["ends"])
    return hashlib.sha256(data).hexdigest()[:32]


def digests(key, samples, contents):
    """The coverage digest of (position, sample) pairs, and the data digest."""
    source = words(hashlib.sha256(b"headrace/digest/1\0" + key).digest())
    k = [next(source) for _ in range(6)]
    cover, data = [0, 0], [0, 0]
    for (p, s), content in zip(samples, contents):
        c = len(content)
        for field in content:
            c = mix(c ^ (zlib.crc32(field) + (len(field) << 32) & MASK))
        for j in range(2):
            a = mix(mix(p + k[2 * j] & MASK) ^ (s + k[2 * j + 1] & MASK))
            cover[j] = cover[j] + a & MASK
            data[j] = data[j] + mix(a + mix(c + k[4 + j] & MASK) & MASK) & MASK
    return [f"{lanes[0]:016x}{lanes[1]:016x}" for lanes in (cover, data)]


def fields(config):
    """One field, whose arrays have the canonical metadata "{}"."""
    out = u64(1) + text("image") + numbers(config["crop"]) + u64(len(config["shapes"]))
    for shape in config["shapes"]:
        out += numbers(shape) + text("{}")
    return out


def order_vectors():
    orders = []
    sizes = [1, 2, 3, 10, 1000, 1023, 1024, 1025, 1026, 4096, 4097, 65535, 65537]
    sizes += [10**6, 2**20, 2**20 + 1, 10**9 + 7, 10**10, 2**31, 2**53 + 1, 2**62, 2**63 - 1]
    for n in sizes:
        for fp, seed, epoch in [("", 0, 0), ("00ff", 0, 1), ("00ff", 1, 0), ("00ff", 2**64 - 1, 2**40)]:
            at = order(n, epoch_key(fp, n, seed, epoch))
            at_positions = sorted({p for p in [0, 1, 2, 3, n // 3, n // 2, n - 2, n - 1] if 0 <= p < n})
            orders.append({"n": n, "fingerprint": fp, "seed": seed, "epoch": epoch, "at": [[p, at(p)] for p in at_positions]})
    return orders


def plan_vectors():
    plans = []
    for shuffle, tail in [(True, "short"), (False, "drop"), (True, "mask")]:
        p = {"fingerprint": "00ff", "n": 10**6, "global": 512, "seed": 2**64 - 1, "shuffle": shuffle, "tail": tail}
        p |= {"block": 0, "window": 0, "ends": []}
        plans.append(p | {"plan": plan(p)})
    return plans


def digest_vectors():
    digested = []
    for n, fp, seed, epoch, delivered in [
        (10, "", 0, 0, 10),
        (2000, "00ff", 1, 7, 1984),
        (2**62, "00ff", 2**64 - 1, 2**40, 100),
    ]:
        key = epoch_key(fp, n, seed, epoch)
        at = order(n, key)
        samples = [(p, at(p)) for p in range(delivered)]
        contents = [[b"image %d" % s, b"mask"] for _, s in samples]
        cover, data = digests(key, samples, contents)
        digested.append(
            {"n": n, "fingerprint": fp, "seed": seed, "epoch": epoch, "count": delivered, "digest": cover, "data": data}
        )
    return digested


def one_size(sizes):
    """The size of blocks of which only the last may be shorter, or 0."""
    return sizes[0] if all(s == sizes[0] for s in sizes[:-1]) and sizes[-1] <= sizes[0] else 0


def block_vectors():
    blocked = []
    for sizes, window in [
        ([4] * 10, 3),
        ([4] * 9 + [2], 4),
        ([700] * 5 + [100], 2),
        ([5, 1, 9, 3, 3], 2),
        ([30, 2000, 1, 7], 3),
        ([8], 256),
    ]:
        n, fp, seed, epoch = sum(sizes), "00ff", 5, 6
        at = block_order(sizes, window, epoch_key(fp, n, seed, epoch))
        p = {"fingerprint": fp, "n": n, "global": 8, "seed": seed, "shuffle": True, "tail": "short", "window": window}
        block = one_size(sizes)
        ends = [] if block else [sum(sizes[: b + 1]) for b in range(len(sizes))]
        entry = p | {"epoch": epoch, "sizes": sizes, "block": block}
        entry["plan"] = plan(p | {"block": block, "ends": ends})
        positions = range(n) if n < 100 else sorted({*range(0, n, n // 20), n - 1})
        blocked.append(entry | {"at": [[p, at(p)] for p in positions]})
    return blocked


def locality_vectors():
    local = []
    for sizes, window, nodes, groups, batch in [
        ([8] * 30 + [3], 10, 4, 8, 20),
        ([5, 1, 9, 3, 3, 12, 7], 3, 3, 3, 11),
        ([16] * 12, 6, 3, 6, 25),
        ([4] * 3, 2, 5, 5, 7),
    ]:
        n, fp, seed, epoch = sum(sizes), "00ff", 5, 6
        key = epoch_key(fp, n, seed, epoch)
        steps = [(s, min(n, s + batch)) for s in range(0, n, batch)]
        parts = [locality(sizes, window, key, fp, nodes, groups, s) for s in steps]
        block = one_size(sizes)
        entry = {"fingerprint": fp, "n": n, "global": batch, "seed": seed, "epoch": epoch, "sizes": sizes, "block": block}
        local.append(entry | {"window": window, "nodes": nodes, "world": groups, "parts": parts})
    return local


def random_vectors():
    random_crops = []
    for config in [
        {"crop": [2, 3], "shapes": [[4, 9], [100, 3], [2, 70]], "weight": "volume", "flips": [-1], "seed": 0},
        {
            "crop": [64, 128, 128],
            "shapes": [[2048, 4096, 4096], [64, 128, 128]],
            "weight": "equal",
            "flips": [-1, -3],
            "seed": 7,
        },
        {"crop": [1], "shapes": [[2**50]], "weight": "volume", "flips": [], "seed": 2**64 - 1},
    ]:
        config["count"] = 1000
        parameters = u64(config["count"]) + text(config["weight"]) + u64(config["seed"]) + numbers(config["flips"])
        config["fingerprint"] = fingerprint("random", parameters + fields(config))
        config["samples"] = [crops(config, i) for i in [0, 1, 2, 3, 500, 999]]
        random_crops.append(config)
    return random_crops


def grid_vectors():
    grid = {"crop": [2, 3], "shapes": [[4, 9], [100, 3]], "stride": [2, 1], "tail": "shift"}
    grid["fingerprint"] = fingerprint("grid", numbers(grid["stride"]) + text(grid["tail"]) + fields(grid))
    return grid


def shard_vectors(grid):
    by_shard = grid | {"shapes": [[9, 20], [31, 17]], "shards": [[4, 8], [16, 6]]}
    tail = b"".join(numbers(s) for s in by_shard["shards"])
    by_shard["fingerprint"] = fingerprint(
        "grid by shard", numbers(grid["stride"]) + text(grid["tail"]) + fields(by_shard) + tail
    )
    by_shard["crops"], by_shard["sizes"] = grid_by_shard(by_shard)
    by_shard["crops"] = by_shard["crops"][::7]
    return by_shard


def part_fingerprint(n):
    """Of the n random crops that golden_test.go mixes and weighs."""
    parameters = u64(n) + text("volume") + u64(0) + numbers([-1])
    return fingerprint("random", parameters + fields({"crop": [2, 3], "shapes": [[4, 9]]}))


def mix_vectors():
    mixes = []
    for lengths, weights, count in [
        ([10, 30, 7], [0, 0, 0], 47),
        ([5, 2000, 40, 1], [0.1, 0.7, 0.15, 0.05], 333),
        ([3, 9], [1, 2], 10**12),
    ]:
        seed = 11
        prints = [part_fingerprint(n) for n in lengths]
        shares = apportion(count, whole_weights(weights, 52) if any(weights) else lengths)
        entry = {"lengths": lengths, "weights": weights, "count": count, "seed": seed, "fingerprints": prints, "shares": shares}
        parameters = u64(seed) + u64(len(lengths)) + b"".join(text(f) + u64(s) for f, s in zip(prints, shares))
        entry["fingerprint"] = fingerprint("mix", parameters)
        indices = sorted({*range(min(count, 40)), count // 2, count - 1})
        entry["origins"] = [[e, i, *mix_origin(entry, e, i)] for e in [0, 1, 1000] for i in indices]
        mixes.append(entry)
    return mixes


def weighted_vectors():
    weighteds = []
    for weights, count in [([1, 0, 2, 0.5], 30), ([1 / 3, 1e-30, 5], 100), ([1.0] * 8, 8)]:
        w = {"weights": weights, "count": count, "seed": 12}
        parameters = u64(12) + u64(count) + text(part_fingerprint(len(weights))) + numbers(whole_weights(weights, 32))
        w["fingerprint"] = fingerprint("weighted", parameters)
        w["origins"] = [weighted_origins(w, e) for e in [0, 1, 77]]
        weighteds.append(w)
    return weighteds


def table_vectors(grid):
    table = {"rows": [[0, [1, 2], [-1]], [1, [50, 0], []], [0, [0, 6], [-1, -2]]]}
    parameters = u64(3)
    for group, start, flips in table["rows"]:
        parameters += u64(group) + numbers(start) + u64(sum(1 << (2 + axis) for axis in flips))
    table["fingerprint"] = fingerprint("table", parameters + fields(grid))
    return table


def list_vectors():
    crop_list = {"boxes": [[0, 2, 1, 4], [1, 3, 0, 3]], "flips": [0, 2], "shape": [4, 9]}
    parameters = u64(2)
    for box, flip in zip(crop_list["boxes"], crop_list["flips"]):
        parameters += u64(1) + u64(0) + numbers(box) + u64(flip)
    parameters += u64(1) + numbers(crop_list["shape"]) + text("{}")
    crop_list["fingerprint"] = fingerprint("list", parameters)
    return crop_list


def main():
    grid = grid_vectors()
    vectors = {
        "orders": order_vectors(),
        "plans": plan_vectors(),
        "digests": digest_vectors(),
        "blocked": block_vectors(),
        "local": locality_vectors(),
        "random": random_vectors(),
        "grid": grid,
        "by_shard": shard_vectors(grid),
        "mixes": mix_vectors(),
        "weighted": weighted_vectors(),
        "table": table_vectors(grid),
        "list": list_vectors(),
    }
    print(json.dumps(vectors, indent=1))


if __name__ == "__main__":
    main()
