"""Tables of every form in which rows have the number of their transaction, and roles that use them."""

from inorder.connection.database import connect

# Every form of a number: in the key; generated, in order and not; a plain column with and without a key; partitions.
CALM = ("s_uuid", "s_generated", "s_number", "s_bare", "s_parts")
# Tables to which their owner applies every form of ALTER TABLE and similar commands.
RESTLESS = ("r_uuid", "r_generated", "r_keyed", "r_parts")
TABLES = CALM + RESTLESS
# Tables in which nothing, or not always the same column, distinguishes the rows of a transaction.
UNORDERED = ("s_bare", "r_keyed")
ROWS_BEFORE = 300
# Columns with numbers that are drawn when a row is written. Readers may request the rows in this order. The first of
# these tables has streams.
ORDER = {"s_uuid": "seq", "s_generated": "id", "s_number": "id", "s_parts": "seq"}
STREAMED, STREAMS = "s_uuid", 5

# Roles that may only read the tables: one that has feeds, and one to which these are granted.
OWNER, MOVER = "s_owner", "s_mover"

SPACE = "s_space"
# Run by the superuser; the rest by the role that owns the tables.
ROLES = f"""
CREATE ROLE {OWNER} LOGIN;
CREATE ROLE {MOVER} LOGIN;
CREATE ROLE s_other;
"""

SETUP = """
CREATE TABLE s_uuid (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), region int NOT NULL, token bigint NOT NULL,
                     seq bigserial UNIQUE);
CREATE TABLE s_streams (stream int PRIMARY KEY, version int NOT NULL);
CREATE TABLE s_generated (id bigserial PRIMARY KEY, region int NOT NULL, token bigint NOT NULL,
                          xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED);
CREATE INDEX ON s_generated (xact);
CREATE TABLE s_number (id bigserial PRIMARY KEY, region int NOT NULL, token bigint NOT NULL,
                       xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON s_number (xact) WHERE xact > 0;
CREATE TABLE s_bare (region int NOT NULL, token bigint NOT NULL, xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON s_bare (xact) WHERE xact > 0;
CREATE TABLE s_parts (id uuid DEFAULT uuid_xact_nextval(), region int NOT NULL, token bigint NOT NULL,
                      seq bigserial, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE INDEX ON s_parts (seq);
CREATE TABLE s_parts_0 PARTITION OF s_parts FOR VALUES IN (0);
CREATE TABLE s_parts_1 PARTITION OF s_parts FOR VALUES IN (1) PARTITION BY HASH (id);
CREATE TABLE s_parts_1a PARTITION OF s_parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE s_parts_1b PARTITION OF s_parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE r_uuid (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), region int NOT NULL, token bigint NOT NULL,
                     note int, label varchar(20) DEFAULT '');
CREATE TABLE r_generated (id bigserial PRIMARY KEY, region int NOT NULL, token bigint NOT NULL, note int,
                          label varchar(20) DEFAULT '', xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED);
CREATE INDEX ON r_generated (xact);
CREATE TABLE r_keyed (a int NOT NULL DEFAULT (random() * 9)::int, b bigserial, region int NOT NULL,
                      token bigint NOT NULL, note int, label varchar(20) DEFAULT '',
                      xact bigint NOT NULL DEFAULT xact_id(), CONSTRAINT r_keyed_pkey PRIMARY KEY (a, b));
CREATE INDEX ON r_keyed (xact);
CREATE TABLE r_parts (id uuid DEFAULT uuid_xact_nextval(), region int NOT NULL, token bigint NOT NULL, note int,
                      label varchar(20) DEFAULT '', PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE r_parts_0 PARTITION OF r_parts FOR VALUES IN (0);
CREATE TABLE r_parts_1 PARTITION OF r_parts FOR VALUES IN (1) PARTITION BY HASH (id);
CREATE TABLE r_parts_1a PARTITION OF r_parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE r_parts_1b PARTITION OF r_parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
-- What a reader has taken is sure once its row here is.
CREATE TABLE s_polls (reader text, number bigint, PRIMARY KEY (reader, number));
GRANT SELECT ON s_uuid, s_generated, s_number, s_bare, s_parts, r_uuid, r_generated, r_keyed, r_parts
    TO s_owner, s_mover;
GRANT SELECT, INSERT ON s_polls TO s_owner, s_mover;

-- Rows first .. first + amount - 1, each in a block of its own, of which each n-th is undone by an exception.
CREATE FUNCTION s_blocks(target regclass, region int, first bigint, amount int, undone int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 0 .. amount - 1 LOOP
        BEGIN
            EXECUTE format('INSERT INTO %s (region, token) VALUES ($1, $2)', target) USING region, first + i;
            IF i % undone = 0 THEN
                RAISE 'undone';
            END IF;
        EXCEPTION WHEN raise_exception THEN
            NULL;
        END;
    END LOOP;
END $$;
"""


def make_roles(superuser: str) -> None:
    with connect(superuser) as connection:
        connection.execute(ROLES.encode())
        connection.execute(f"CREATE TABLESPACE {SPACE} LOCATION ''".encode())
        connection.execute(f"GRANT CREATE ON TABLESPACE {SPACE} TO PUBLIC".encode())
