-- Who floods: what wrote when machines stalled for want of clean memory.
SELECT
    coalesce(subject, 'unknown') AS writer,
    cause,
    count(*) AS stalls,
    count(DISTINCT host) AS machines,
    round(sum(lasted_ms) / 60000.0, 1) AS minutes_lost
FROM incidents
WHERE cause IN ('page-cache-flood', 'dirty-throttle', 'dirty-limit-too-high')
GROUP BY writer, cause
ORDER BY minutes_lost DESC, writer
LIMIT 50;
