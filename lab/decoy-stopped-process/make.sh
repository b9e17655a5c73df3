kill -STOP "$(cat /run/server)"
