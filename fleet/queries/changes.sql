-- What changed before: facts that differ from those of the recorded day before, on machines that stalled on that day.
WITH days AS (
    SELECT host, day, lag(day, 1) OVER (PARTITION BY host ORDER BY day) AS day_before
    FROM (SELECT DISTINCT host, day FROM facts) AS recorded
), stalls AS (
    SELECT host, day, count(*) AS stalls FROM incidents GROUP BY host, day
), stalled AS (
    SELECT stalls.host AS host, stalls.day AS day, days.day_before AS day_before, stalls.stalls AS stalls
    FROM stalls
    JOIN days ON days.host = stalls.host AND days.day = stalls.day
    WHERE days.day_before > 0
), needed AS (
    SELECT host, day AS compared, day AS stalled_on, stalls FROM stalled
    UNION ALL
    SELECT host, day_before AS compared, day AS stalled_on, stalls FROM stalled
), changes AS (
    SELECT
        facts.host AS host, facts.fact AS fact, needed.stalled_on AS stalled_on,
        max(CASE WHEN needed.compared < needed.stalled_on THEN facts.value END) AS earlier,
        max(CASE WHEN needed.compared = needed.stalled_on THEN facts.value END) AS later,
        max(needed.stalls) AS stalls
    FROM facts
    JOIN needed ON needed.host = facts.host AND needed.compared = facts.day
    GROUP BY facts.host, facts.fact, needed.stalled_on
)
SELECT fact AS changed, earlier, later, count(DISTINCT host) AS machines, sum(stalls) AS stalls_that_day
FROM changes
WHERE earlier <> later
GROUP BY fact, earlier, later
ORDER BY stalls_that_day DESC, changed
LIMIT 50;
