# A computation of fixed length, as a service does to answer.
exec spin 600
