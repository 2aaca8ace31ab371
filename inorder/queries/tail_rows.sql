-- The rows of a query.
COPY (SELECT {columns} FROM ({rows}) AS e) TO STDOUT WITH ({options})
