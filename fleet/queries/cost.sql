-- What stalls cost, by cause: how many, on how many machines, and for how long.
SELECT
    coalesce(cause, 'unknown') AS class,
    count(*) AS stalls,
    count(DISTINCT host) AS machines,
    round(sum(lasted_ms) / 60000.0, 1) AS minutes_lost,
    round(max(worst_us) / 1000000.0, 1) AS worst_s
FROM incidents
GROUP BY class
ORDER BY minutes_lost DESC, class;
