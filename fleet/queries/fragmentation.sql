-- Which machines fragment fastest: by how much the memory in free blocks of 2 MiB falls in a day, by a straight line
-- through the least of each hour.
WITH points AS (
    SELECT host, (hour - 490000) / 24.0 AS x, free_2m_bytes_min / 1073741824.0 AS y
    FROM hours
    WHERE free_2m_bytes_min IS NOT NULL
), sums AS (
    SELECT
        host, count(*) AS n, sum(x) AS sx, sum(y) AS sy, sum(x * y) AS sxy, sum(x * x) AS sxx, max(y) AS most
    FROM points
    GROUP BY host
)
SELECT
    host,
    n AS recorded_hours,
    round(most, 2) AS most_gib,
    round((n * sxy - sx * sy) / (n * sxx - sx * sx), 3) AS gib_a_day
FROM sums
WHERE n >= 12
ORDER BY gib_a_day, host
LIMIT 50;
