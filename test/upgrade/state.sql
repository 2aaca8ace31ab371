ALTER TABLE inorder_internal.feed ADD COLUMN times_renamed int;
COMMENT ON COLUMN inorder_internal.feed.times_renamed IS 'number of calls of feed_rename(); null if there was none';
