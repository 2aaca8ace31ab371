-- The backlog of a feed: the number of transactions that the feed has not read and, up to a limit, the number of their
-- rows.

-- Return the backlog after a position. The transactions in "unread" are in the position, but count as unread. "asked"
-- is true if the caller named the table, and may read it.
--
--  transactions  number of transactions that have ended and are not read, including transactions without rows in this
--                table
--  rows          number of rows of these transactions in this table: see unread_rows()
--  caught_up     true if there are no unread rows; null if unknown
CREATE FUNCTION inorder_internal.backlog(
    t inorder_internal.feed_table, p @extschema@.feed_position, unread int8multirange, asked boolean,
    OUT transactions bigint, OUT rows bigint, OUT caught_up boolean
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    numbers int8multirange;
    later bigint;
BEGIN
    -- If the numbers of this table are used up, the result is null, because an error would prevent the view from
    -- showing other feeds.
    IF inorder_internal.next_transaction(0) > 281474976710655 - t.base THEN
        RETURN;
    END IF;
    numbers := inorder_internal.minus(inorder_internal.ended_everywhere(t.base),
                                      inorder_internal.minus(p.transactions, unread));
    transactions := inorder_internal.total(numbers);
    IF isempty(numbers) THEN
        rows := 0;
    ELSE
        -- A rollback to a savepoint releases the locks. The rollback is caused by the error that this block raises, or
        -- by the error about a table that cannot be locked or read.
        BEGIN
            rows := inorder_internal.unread_rows(t, numbers, asked);
            later := CASE WHEN p.partial IS NOT NULL AND rows > 0 THEN inorder_internal.unread_rows(
                t, inorder_internal.minus(numbers, inorder_internal.one_number(p.partial)), asked) END;
            RAISE SQLSTATE 'IOLOK';
        EXCEPTION WHEN OTHERS THEN
            NULL;
        END;
    END IF;
    -- If no later transaction has rows, it is unknown whether the transaction that was read in part has unread rows.
    caught_up := CASE WHEN p.partial IS NOT NULL THEN nullif(later = 0, true)
                      WHEN (p.ordering).frozen IS NOT NULL THEN false ELSE rows = 0 END;
END $$;
