-- A new attribute of positions, batches and orders. CASCADE is needed because a user may have a table of such a type.
ALTER TYPE @extschema@.feed_position ADD ATTRIBUTE noted text CASCADE;
ALTER TYPE @extschema@.feed_batch ADD ATTRIBUTE noted text CASCADE;
ALTER TYPE @extschema@.feed_order ADD ATTRIBUTE noted bigint CASCADE;
CREATE OR REPLACE FUNCTION inorder_internal.position_format()
RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 2;
SELECT inorder_internal.rewrite_positions();
