took answer timeout 3 wget -q -O - http://10.9.9.1/
# That the client has given up is the measurement, not an error.
true
