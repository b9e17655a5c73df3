took answer timeout 3 sh -c 'echo ping >/run/question; read -r answer </run/answer'
# That the client has given up is the measurement, not an error.
true
