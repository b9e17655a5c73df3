-- What changed before: facts that differ from those of the day before, on machines that stalled on that day.
WITH days AS (
    SELECT host, fact, day, max(value) AS latest FROM facts GROUP BY host, fact, day
), changes AS (
    SELECT
        host, fact, day, latest,
        lag(latest, 1) OVER (PARTITION BY host, fact ORDER BY day) AS before
    FROM days
), stalls AS (
    SELECT host, day, count(*) AS stalls FROM incidents GROUP BY host, day
)
SELECT
    changes.fact AS changed,
    changes.before AS earlier,
    changes.latest AS later,
    count(DISTINCT changes.host) AS machines,
    sum(stalls.stalls) AS stalls_that_day
FROM changes
JOIN stalls ON stalls.host = changes.host AND stalls.day = changes.day
WHERE changes.before IS NOT NULL AND changes.before <> '' AND changes.before <> changes.latest
GROUP BY changed, earlier, later
ORDER BY stalls_that_day DESC, changed
LIMIT 50;
