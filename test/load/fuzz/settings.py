"""Settings that any role may change."""

import random

CHOICES = {
    "search_path": (
        "mallory, pg_catalog, public", "mallory, public", "public, pg_catalog", "pg_temp, mallory, pg_catalog", "''",
        '"$user", public', "pg_catalog", "public, mallory",
    ),
    "standard_conforming_strings": ("off", "on"),
    "escape_string_warning": ("off", "on"),
    "backslash_quote": ("on", "off", "safe_encoding"),
    "DateStyle": ("'SQL, DMY'", "'German'", "'Postgres, MDY'", "'ISO, YMD'"),
    "IntervalStyle": ("sql_standard", "postgres_verbose", "iso_8601", "postgres"),
    "TimeZone": ("'Pacific/Kiritimati'", "'America/St_Johns'", "'UTC'", "'<+99>-99'"),
    "quote_all_identifiers": ("on", "off"),
    "transform_null_equals": ("on", "off"),
    "array_nulls": ("off", "on"),
    "row_security": ("off", "on"),
    "plan_cache_mode": ("force_generic_plan", "force_custom_plan", "auto"),
    "default_transaction_isolation": ("serializable", "'repeatable read'", "'read committed'"),
    "default_transaction_read_only": ("on", "off", "off"),
    "transaction_read_only": ("on", "off"),
    "transaction_isolation": ("serializable", "'repeatable read'"),
    "extra_float_digits": ("-15", "3", "0"),
    "bytea_output": ("escape", "hex"),
    "xmlbinary": ("hex", "base64"),
    # debug5 is omitted: with debug5, a cancel request takes effect during the cleanup of a subtransaction, and the
    # error is then FATAL.
    "client_min_messages": ("error", "debug4", "notice"),
    "client_encoding": ("latin1", "sql_ascii", "utf8", "euc_jp"),
    "synchronous_commit": ("off", "on", "local", "remote_apply"),
    "constraint_exclusion": ("on", "off", "partition"),
    "enable_seqscan": ("off", "on"),
    "enable_indexscan": ("off", "on"),
    "enable_bitmapscan": ("off", "on"),
    "enable_sort": ("off", "on"),
    "enable_hashjoin": ("off", "on"),
    "enable_partitionwise_join": ("on", "off"),
    "enable_partitionwise_aggregate": ("on", "off"),
    "force_parallel_mode": ("on", "regress", "off"),
    "debug_parallel_query": ("on", "regress", "off"),
    "parallel_setup_cost": ("0", "1000"),
    "parallel_tuple_cost": ("0", "0.1"),
    "min_parallel_table_scan_size": ("0", "'8MB'"),
    "from_collapse_limit": ("1", "8"),
    "geqo_threshold": ("2", "12"),
    "work_mem": ("'64kB'", "'4MB'"),
    "statement_timeout": ("'1ms'", "'20ms'", "'1s'", "'1s'", "'1s'"),
    "lock_timeout": ("'1ms'", "'100ms'"),
    "plpgsql.variable_conflict": ("use_column", "use_variable"),
    "plpgsql.check_asserts": ("off",),
    "check_function_bodies": ("off", "on"),
    "default_toast_compression": ("pglz",),
    "lc_messages": ("'C'",),
    "temp_tablespaces": ("''",),
    "default_table_access_method": ("heap",),
    "create_role_self_grant": ("'set, inherit'",),
    "session_replication_role": ("replica",),
    "allow_system_table_mods": ("on",),
    "role": ("none", "alice", "mallory"),
    "session_authorization": ("alice",),
    "cursor_tuple_fraction": ("0", "1"),
    "jit": ("on", "off"),
    "jit_above_cost": ("0",),
    "idle_in_transaction_session_timeout": ("0",),
    "max_stack_depth": ("'100kB'",),
}  # fmt: skip
# Settings that no call may change. make_durable() changes synchronous_commit on purpose.
WATCHED = sorted(
    {name for name in CHOICES if name.islower() and "." not in name}
    - {"force_parallel_mode", "debug_parallel_query", "create_role_self_grant", "synchronous_commit",
       "transaction_read_only",
       "transaction_isolation", "role", "session_authorization", "allow_system_table_mods", "plpgsql.check_asserts"}
)  # fmt: skip


# Settings that must not affect the extension's functions.
HARMLESS = (
    "DateStyle", "IntervalStyle", "TimeZone", "standard_conforming_strings", "quote_all_identifiers", "array_nulls",
    "transform_null_equals", "bytea_output", "extra_float_digits", "constraint_exclusion", "plan_cache_mode",
    "enable_sort",
    "enable_seqscan", "enable_indexscan", "enable_bitmapscan", "enable_partitionwise_aggregate", "row_security", "jit",
    "parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size", "plpgsql.variable_conflict",
)  # fmt: skip


def harmless(rng: random.Random) -> str:
    return "; ".join(f"SET {name} = {rng.choice(CHOICES[name])}" for name in rng.sample(HARMLESS, 4))


def change(rng: random.Random) -> str:
    name = rng.choice((*CHOICES, *["search_path"] * 6))
    if rng.random() < 0.1:
        return "RESET ALL" if rng.random() < 0.3 else f"RESET {name}"
    return f"SET {rng.choice(('', '', 'LOCAL '))}{name} = {rng.choice(CHOICES[name])}"
