---- feed_to_text: plpgsql keys
BEGIN
    RETURN format('%s', $1);
END
---- feed_position_of_text: plpgsql keys
BEGIN
    RETURN value;
END
---- feed_batch_of_text: plpgsql keys
BEGIN
    RETURN value;
END
