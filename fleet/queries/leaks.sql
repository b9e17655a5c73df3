-- Which cgroups grow: by how much a day, by a straight line through the hours, and when their limit is reached.
WITH points AS (
    SELECT
        host, name, (hour - 490000) / 24.0 AS x, bytes / 1073741824.0 AS y, limit_bytes / 1073741824.0 AS limit_gib
    FROM holders
    WHERE kind = 'cgroup'
), sums AS (
    SELECT
        host, name, count(*) AS n, sum(x) AS sx, sum(y) AS sy, sum(x * y) AS sxy, sum(x * x) AS sxx,
        sum(y * y) AS syy, max(y) AS most, max(limit_gib) AS largest_limit
    FROM points
    GROUP BY host, name
)
SELECT
    host,
    name AS cgroup,
    round(most, 2) AS gib,
    round((n * sxy - sx * sy) / (n * sxx - sx * sx), 3) AS gib_a_day,
    round((largest_limit - most) / ((n * sxy - sx * sy) / (n * sxx - sx * sx)), 1) AS days_to_limit
FROM sums
-- A line that explains nine tenths of what varies: neither a cache that fills nor a sawtooth.
WHERE n >= 12
    AND n * sxy - sx * sy > 0
    AND (n * sxy - sx * sy) * (n * sxy - sx * sy) >= 0.9 * (n * sxx - sx * sx) * (n * syy - sy * sy)
ORDER BY gib_a_day DESC, host, cgroup
LIMIT 50;
