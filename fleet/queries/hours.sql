-- At which hour of the day machines stall (UTC): a backup, a batch, a checkpoint.
SELECT
    hour % 24 AS hour_of_day,
    coalesce(cause, 'unknown') AS class,
    count(*) AS stalls,
    count(DISTINCT host) AS machines
FROM incidents
GROUP BY hour_of_day, class
ORDER BY stalls DESC, hour_of_day, class
LIMIT 50;
