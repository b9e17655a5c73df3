-- Machines whose recorder is silent: the last minute of each that is older than the newest one by an hour.
WITH last AS (
    SELECT host, max(recorded_at) AS last_minute FROM minutes GROUP BY host
)
SELECT host, last_minute
FROM last
WHERE last_minute < (SELECT max(last_minute) FROM last) - INTERVAL 1 HOUR
ORDER BY last_minute, host;
