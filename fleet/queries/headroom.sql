-- How much memory each machine never used, and how much of it was always in blocks of 2 MiB: what fits where.
SELECT
    host,
    round(min(available_bytes_min) / 1073741824.0, 2) AS never_used_gib,
    round(min(free_2m_bytes_min) / 1073741824.0, 2) AS always_free_2m_gib,
    sum(oom_kills) AS oom_kills
FROM hours
GROUP BY host
ORDER BY never_used_gib DESC, host
LIMIT 50;
