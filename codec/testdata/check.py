"""Decodes with numcodecs what package codec has encoded, and compares.

Reads cases like those of gen.py from stdin, one a line. Prints each case that
numcodecs reads otherwise or not at all, and the number of cases.
"""

import base64
import json
import sys

import numcodecs
import numpy as np

failed = count = 0
for line in sys.stdin:
    case = json.loads(line)
    count += 1
    encoded, want = base64.b64decode(case["Encoded"]), base64.b64decode(case["Want"])
    config = dict(case["Config"] or {}, id=case["Codec"])
    config.pop("typesize", None)
    if config["id"] == "blosc":
        config = {"id": "blosc"}  # the frame says all
    if config["id"] == "bitround":
        config.pop("dtype", None)
    try:
        source = np.frombuffer(encoded, "u1")
        got = np.ascontiguousarray(numcodecs.get_codec(config).decode(source))
    except Exception as e:  # whatever it is, the case is not readable
        failed += 1
        print(case["Name"], "-", type(e).__name__, e)
        continue
    if got.tobytes() != want:
        failed += 1
        print(case["Name"], "- other bytes:", len(got.tobytes()), "of", len(want))
print(count, "cases,", failed, "failed")
sys.exit(failed > 0)
