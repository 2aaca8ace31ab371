-- Rows, as the server writes them.
COPY (SELECT {columns} FROM {rows} AS e) TO STDOUT WITH ({options})
