INSERT INTO orders (body) SELECT jsonb_build_object('line', n) FROM generate_series(1, 2) AS n;
