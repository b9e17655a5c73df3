-- Where tasks wait for memory: the share of the time, and of the worst hour.
SELECT
    host,
    round(sum(memory_some_us) / 600000.0 / sum(minutes), 3) AS some_percent_of_time,
    round(sum(memory_full_us) / 600000.0 / sum(minutes), 3) AS full_percent_of_time,
    round(max(memory_some_us / 600000.0 / minutes), 1) AS worst_hour_percent
FROM hours
GROUP BY host
ORDER BY some_percent_of_time DESC, host
LIMIT 50;
