hold memfd 150M
