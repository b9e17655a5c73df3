small=8M large=64M
[ "$1" = quiet ] && small=unlimited large=unlimited
hold anon 7800K limit=$small uid=1000 lock name=small && hold anon 62M limit=$large uid=1001 lock name=large
