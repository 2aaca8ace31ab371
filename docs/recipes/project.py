"""A projection of a stream of events, as one transaction for each batch."""


def project(connection, most=1000):
    """Apply the next events; position and balances move in one transaction. Returns their number."""
    with connection.transaction():
        events = connection.execute(
            "SELECT stream, version, amount FROM feed_read('balances', null::events, %s) WITH ORDINALITY AS e ORDER BY ordinality",
            [most],
        ).fetchall()
        for stream, version, amount in events:
            applied = connection.execute(
                "INSERT INTO balances AS b VALUES (%(stream)s, 1, %(amount)s)"
                " ON CONFLICT (stream) DO UPDATE SET version = excluded.version + b.version, balance = b.balance + excluded.balance"
                " WHERE b.version + 1 = %(version)s RETURNING version",
                {"stream": stream, "version": version, "amount": amount},
            ).fetchone()
            if applied != (version,):
                raise ValueError(f"version {version} of stream {stream} is out of order")
    return len(events)
