# What arrives for an address that nobody has is dropped, and nothing is sent back.
ip addr del 10.9.9.1/32 dev lo && ip route add 10.9.9.1/32 dev lo src 10.9.9.2
