# A computation of fixed length.
took -n 7 spin spin 600
