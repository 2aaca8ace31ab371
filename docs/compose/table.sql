SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inorder;
CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), at timestamptz DEFAULT now(), body jsonb);
SELECT feed_enable('orders');
