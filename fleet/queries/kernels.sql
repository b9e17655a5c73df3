-- Which kernel stalls more: stalls for every thousand hours that were recorded.
WITH recorded AS (
    SELECT host, sum(minutes) / 60.0 AS hours FROM hours GROUP BY host
), kernels AS (
    SELECT host, max(value) AS kernel FROM facts WHERE fact = 'kernel' GROUP BY host
), stalls AS (
    SELECT host, count(*) AS stalls FROM incidents GROUP BY host
)
SELECT
    coalesce(kernel, 'unknown') AS release,
    count(*) AS machines,
    round(sum(recorded.hours), 0) AS recorded_hours,
    sum(coalesce(stalls, 0)) AS all_stalls,
    round(1000.0 * sum(coalesce(stalls, 0)) / sum(recorded.hours), 2) AS stalls_per_1000_h
FROM recorded
LEFT JOIN kernels ON kernels.host = recorded.host
LEFT JOIN stalls ON stalls.host = recorded.host
GROUP BY release
ORDER BY stalls_per_1000_h DESC, release;
