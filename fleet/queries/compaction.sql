-- Who waits for huge pages: stalls in compaction, how many of them in vain, and how many faults got none.
SELECT
    host,
    sum(compaction_stalls) AS stalls,
    round(100.0 * sum(compaction_failures) / sum(compaction_stalls), 1) AS in_vain_percent,
    round(100.0 * sum(thp_fallbacks) / nullif(sum(thp_faults) + sum(thp_fallbacks), 0), 1) AS faults_without_percent
FROM hours
GROUP BY host
HAVING sum(compaction_stalls) > 0
ORDER BY stalls DESC, host
LIMIT 50;
