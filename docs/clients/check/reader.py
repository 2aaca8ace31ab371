#!/usr/bin/env python3
"""A reader for inorder lab check. Replace the query with yours; docs/check-protocol.md describes the protocol."""

import json
import sys

import psycopg

with psycopg.connect("", autocommit=True) as connection:
    for line in sys.stdin:
        last = json.loads(line)["last"] or 0
        for (key,) in connection.execute("SELECT id FROM events WHERE id > %s ORDER BY id", [last]):
            print(json.dumps(key))
            last = key
        print(json.dumps({"last": last}), flush=True)
