"""The editions that a server supports, the obstacles to the other editions, and the installed edition."""

from dataclasses import dataclass

from inorder.errors import InputError
from inorder.text import one_line, quoted

C, SQL = "c", "sql"
EDITIONS = {C: "C extension", SQL: "SQL edition"}
OLDEST, NEWEST = 15, 19


@dataclass(frozen=True)
class Installed:
    edition: str
    version: str
    schema: str
    owner: str
    quoted: str  # the schema as quoted by the server

    def __str__(self) -> str:
        return f"inorder {one_line(self.version)} ({EDITIONS[self.edition]}) in schema {one_line(self.schema)}"


@dataclass(frozen=True)
class Offer:
    """The requested schema, and facts about a database: the result of install_facts, and access to the WAL position."""

    schema: str
    version_number: int
    version: str
    is_standby: bool
    is_read_only: bool
    database: str
    role: str
    is_superuser: bool
    can_create: bool
    can_use_plpgsql: bool
    extension_version: str | None
    extension_schema: str | None
    extension_owner: str | None
    quoted: str | None
    schema_owner: str | None
    is_trusted_schema: bool
    state_owner: str | None
    sql_version: str | None
    sql_schema: str | None
    is_trusted_owner: bool
    is_keyword: bool
    c_version: str | None
    is_trusted: bool
    revoked: list[str]
    wal_problem: str | None

    @property
    def installed(self) -> Installed | None:
        if self.extension_version is not None:
            return Installed(
                C, self.extension_version, str(self.extension_schema), str(self.extension_owner), str(self.quoted)
            )
        if self.sql_version is not None:
            return Installed(SQL, self.sql_version, str(self.sql_schema), str(self.state_owner), str(self.quoted))
        return None

    def problems(self, edition: str, replaces: bool = False) -> list[str]:
        """Return the obstacles to an edition. The list is empty if the edition can be installed.

        ``replaces`` is true if the edition would replace the installed edition.
        """
        problems = self.general_problems()
        problems += {C: self.c_problems, SQL: self.sql_problems}[edition]()
        return problems + ([] if replaces else self.taken_names(edition))

    def general_problems(self) -> list[str]:
        # loads the driver, which --help does not need
        from inorder.connection.database import identifier  # noqa: PLC0415

        problems = []
        if not OLDEST <= self.version_number // 10000 <= NEWEST:
            problems.append(f"the server is PostgreSQL {self.version}; inorder needs {OLDEST} to {NEWEST}")
        if self.is_standby:
            problems.append("the server is a standby: install inorder on its primary")
        elif self.is_read_only:
            problems.append(
                "transactions are read-only here; HINT: set default_transaction_read_only to off; a provider may have "
                "turned it on because the disk is full"
            )
        if not self.can_create:
            problems.append(
                f"role {quoted(self.role)} lacks CREATE on database {quoted(self.database)}; "
                f"HINT: GRANT CREATE ON DATABASE {identifier(self.database)} TO {identifier(self.role)}"
            )
        return problems

    def c_problems(self) -> list[str]:
        if self.c_version is None:
            return [
                "pg_available_extensions has no inorder; HINT: install its files on the server: see docs/install.md"
            ]
        if not (self.is_superuser or self.is_trusted):
            return [f"the available extension is not trusted, and role {quoted(self.role)} is not a superuser"]
        return []

    def sql_problems(self) -> list[str]:
        problems = []
        if self.is_keyword:
            problems.append(f"the schema name {quoted(self.schema)} is an SQL keyword; HINT: choose another --schema")
        if not self.can_use_plpgsql:
            problems.append(f"role {quoted(self.role)} lacks USAGE on language plpgsql")
        if self.revoked:
            problems.append(f"the server does not let every role use {', '.join(self.revoked)}")
        if self.wal_problem is not None:
            problems.append(
                f"the server does not show its position in the WAL: {self.wal_problem}; "
                "HINT: Aurora shows the position if the parameter rds.logical_replication is 1"
            )
        return problems

    def taken_names(self, edition: str) -> list[str]:
        """Return obstacles caused by existing schemas. The C extension can share a schema that a trusted role owns."""
        problems = []
        if self.state_owner is not None:
            problems.append(f"schema inorder_internal already exists and belongs to role {quoted(self.state_owner)}")
        if self.schema_owner is not None and edition != C:
            problems.append(
                f"schema {quoted(self.schema)} already exists and belongs to role {quoted(self.schema_owner)}, and the "
                "SQL edition creates its schema itself; HINT: drop the schema, or choose another --schema"
            )
        elif not self.is_trusted_schema:
            problems.append(
                f"schema {quoted(self.schema)} already exists and belongs to role {quoted(self.schema_owner)}, who "
                "could drop the extension or add functions to the schema; HINT: drop the schema, or choose another "
                "--schema"
            )
        return problems

    def best(self) -> str | None:
        return next((edition for edition in EDITIONS if not self.problems(edition)), None)


def chosen(offer: Offer, requested: str | None, replaces: bool = False) -> str:
    """Return the requested edition, or else the best one. Raise InputError with reasons if it is impossible."""
    edition = requested or offer.best()
    if edition is None:
        reasons = "\n".join(f"{name}: {'; '.join(offer.problems(name))}" for name in EDITIONS)
        raise InputError(f"no edition of inorder can be installed in database {quoted(offer.database)}\n{reasons}")
    if problems := offer.problems(edition, replaces):
        raise InputError(f"the {EDITIONS[edition]} cannot be installed: {'; '.join(problems)}")
    return edition
