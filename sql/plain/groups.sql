---- counting_function: sql
RETURN (s).deltas;
