-- Where tasks wait for memory: the share of the time, and of the worst hour.
WITH hours AS (
    SELECT
        host, hour,
        sum(memory_some_us) / 36000000.0 AS some_percent, sum(memory_full_us) / 36000000.0 AS full_percent
    FROM minutes
    GROUP BY host, hour
)
SELECT
    host,
    round(avg(some_percent), 3) AS some_percent_of_time,
    round(avg(full_percent), 3) AS full_percent_of_time,
    round(max(some_percent), 1) AS worst_hour_percent
FROM hours
GROUP BY host
ORDER BY some_percent_of_time DESC, host
LIMIT 50;
