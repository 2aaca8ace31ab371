ALTER TABLE inorder_internal.feed ADD COLUMN times_renamed int NOT NULL DEFAULT 0;
COMMENT ON COLUMN inorder_internal.feed.times_renamed IS 'how often feed_rename() was called for it';
