hold anon 200M
