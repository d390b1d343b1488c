-- Returns no row if the ledger accounts, from its first row of each schedule and generation on, for every
-- occurrence that the cursors have passed, once.
-- For PostgreSQL, MariaDB and SQLite. Each row names a schedule and an instant before which something is
-- missing or stands twice, or a schedule whose cursor is not where its ledger ends. A removal leaves the
-- cursor at what it withdraws.
WITH moves AS (
    SELECT r.id, r.execute_id, r.generation, r.scheduled_time, r.prev_fire_time, r.following_fire_time,
           CASE WHEN r.state = 'WITHDRAWN' THEN r.scheduled_time ELSE r.following_fire_time END AS leads_to,
           LAG(CASE WHEN r.until_time = -1 THEN r.scheduled_time ELSE r.until_time END) OVER chain AS behind,
           LAG(r.following_fire_time) OVER chain AS announced,
           LEAD(r.id) OVER chain AS later
    FROM QRTZ_RUN r
    WHERE r.origin = 0 AND r.attempt = 1
    WINDOW chain AS (PARTITION BY r.execute_id, r.generation ORDER BY r.scheduled_time)
)
SELECT e.application, e.name AS schedule, m.generation, m.scheduled_time, m.behind, m.following_fire_time,
       e.next_fire_time
FROM moves m
JOIN QRTZ_EXECUTE e ON e.id = m.execute_id
WHERE m.behind <> m.prev_fire_time
   OR m.announced <> m.scheduled_time
   OR (m.later IS NULL AND m.generation = e.generation AND m.leads_to <> e.next_fire_time)
