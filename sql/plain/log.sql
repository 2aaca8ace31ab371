---- trigger_function: sql
RETURN log::text;
