# The condition is made in setup.sh, and what is evaluated is measured.
