-- Machines whose recorder is silent: the last recorded hour of each that is older than the newest one by more than an hour.
WITH last AS (
    SELECT host, max(recorded_at) AS last_hour FROM hours GROUP BY host
)
SELECT host, last_hour
FROM last
WHERE last_hour < (SELECT max(last_hour) FROM last) - INTERVAL 1 HOUR
ORDER BY last_hour, host;
