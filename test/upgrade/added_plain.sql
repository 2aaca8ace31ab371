---- added_in_c: sql
RETURN number + 1;
