hold anon 100M
