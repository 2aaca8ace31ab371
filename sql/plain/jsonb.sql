---- feed_to_text: plpgsql keys
BEGIN
    RETURN format('%s', $1);
END
---- feed_position_of_text: plpgsql keys
DECLARE
    p @extschema@.feed_position;
BEGIN
    -- A literal is read by the input function; a cast of the text would call this function.
    EXECUTE format('SELECT (%L::@extschema@.feed_position).*', value) INTO p;
    RETURN p;
END
---- feed_batch_of_text: plpgsql keys
DECLARE
    b @extschema@.feed_batch;
BEGIN
    EXECUTE format('SELECT (%L::@extschema@.feed_batch).*', value) INTO b;
    RETURN b;
END
