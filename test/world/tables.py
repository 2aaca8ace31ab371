"""Test tables for each form of the transaction number, and the roles that use these tables."""

from inorder.connection.database import connect

# Each form of the transaction number: in the key, in a generated column, in a plain column of a table with and without
# a key, and in partitions.
CALM = ("s_uuid", "s_generated", "s_number", "s_bare", "s_parts")
# Tables that their owner changes with all forms of ALTER TABLE and similar commands.
RESTLESS = ("r_uuid", "r_generated", "r_keyed", "r_parts")
TABLES = CALM + RESTLESS
# Tables without a key or with a changing key, in which the order of the rows of one transaction is undefined.
UNORDERED = ("s_bare", "r_keyed")
ROWS_BEFORE = 300
# Columns whose values come from a sequence when a row is written. Readers may request the rows in the order of this
# column. The first of these tables has streams.
ORDER = {"s_uuid": "seq", "s_generated": "id", "s_number": "id", "s_parts": "seq"}
STREAMED, STREAMS = "s_uuid", 5

# Roles that may only read the tables. The first role owns feeds and grants them to the second role.
OWNER, MOVER = "s_owner", "s_mover"

SPACE = "s_space"
# Statements for the superuser. All other statements are run by the owner of the tables.
ROLES = f"""
CREATE ROLE {OWNER} LOGIN;
CREATE ROLE {MOVER} LOGIN;
CREATE ROLE s_other;
"""

# A writer gives each row a region and a token.
COLUMNS = "region int NOT NULL, token bigint NOT NULL"
DEFAULT = "xact bigint NOT NULL DEFAULT xact_id()"
GENERATED = "xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED"
# Statements that create a table with each form of the transaction number.
FORMS = {
    "uuid": "CREATE TABLE {table} (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), {columns});",
    "generated": """
CREATE TABLE {table} (id bigserial PRIMARY KEY, {columns}, {generated});
CREATE INDEX ON {table} (xact);
""",
    "number": """
CREATE TABLE {table} (id bigserial PRIMARY KEY, {columns}, {default});
CREATE INDEX ON {table} (xact) WHERE xact > 0;
""",
    "bare": """
CREATE TABLE {table} ({columns}, {default});
CREATE INDEX ON {table} (xact) WHERE xact > 0;
""",
    "keyed": """
CREATE TABLE {table} (a int NOT NULL DEFAULT (random() * 9)::int, b bigserial, {columns}, {default},
                      CONSTRAINT {table}_pkey PRIMARY KEY (a, b));
CREATE INDEX ON {table} (xact);
""",
    "parts": """
CREATE TABLE {table} (id uuid DEFAULT uuid_xact_nextval(), {columns}, PRIMARY KEY (id, region))
    PARTITION BY LIST (region);
CREATE TABLE {table}_0 PARTITION OF {table} FOR VALUES IN (0);
CREATE TABLE {table}_1 PARTITION OF {table} FOR VALUES IN (1) PARTITION BY HASH (id);
CREATE TABLE {table}_1a PARTITION OF {table}_1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE {table}_1b PARTITION OF {table}_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
""",
    "hashed": """
CREATE TABLE {table} ({columns}, {generated}, PRIMARY KEY (token)) PARTITION BY HASH (token);
CREATE INDEX ON {table} (xact);
CREATE TABLE {table}_0 PARTITION OF {table} FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE {table}_1 PARTITION OF {table} FOR VALUES WITH (MODULUS 2, REMAINDER 1);
""",
}


def table(form: str, name: str, more: str = "") -> str:
    """Return the statements that create a table of this form with additional columns."""
    return FORMS[form].format(table=name, columns=COLUMNS + more, default=DEFAULT, generated=GENERATED)


# Inserts rows with the tokens first .. first + amount - 1, each in its own block. An exception rolls back every n-th
# block, where n is the argument "undone".
BLOCKS = """
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
MORE = dict.fromkeys(RESTLESS, ", note int, label varchar(20) DEFAULT ''")
MORE |= {"s_uuid": ", seq bigserial UNIQUE", "s_parts": ", seq bigserial"}
SETUP = f"""
{"".join(table(name[2:], name, MORE.get(name, "")) for name in TABLES)}
CREATE INDEX ON s_parts (seq);
CREATE TABLE s_streams (stream int PRIMARY KEY, version int NOT NULL);
-- If a poll has a row in this table, the poll has committed.
CREATE TABLE s_polls (reader text, number bigint, PRIMARY KEY (reader, number));
GRANT SELECT ON {", ".join(TABLES)} TO {OWNER}, {MOVER};
GRANT SELECT, INSERT ON s_polls TO {OWNER}, {MOVER};
{BLOCKS}"""


def make_roles(superuser: str) -> None:
    with connect(superuser) as connection:
        connection.execute(ROLES.encode())
        connection.execute(f"CREATE TABLESPACE {SPACE} LOCATION ''".encode())
        connection.execute(f"GRANT CREATE ON TABLESPACE {SPACE} TO PUBLIC".encode())
