ALTER TABLE inorder_internal.feed ADD COLUMN times_renamed int;
COMMENT ON COLUMN inorder_internal.feed.times_renamed IS 'how often feed_rename() was called for it; null for never';
