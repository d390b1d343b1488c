-- When a schedule was paused, for people. First, as it takes the table's strongest lock: taken later, it
-- could wait for a running node's transaction that waits for a weaker one.
ALTER TABLE QRTZ_EXECUTE ADD COLUMN IF NOT EXISTS paused_time BIGINT NOT NULL DEFAULT -1;

-- Led by the job: whoever runs one job never reads another's rows. The id keeps a million rows of one instant
-- in order.
CREATE INDEX IF NOT EXISTS QRTZ_EXECUTE_JOB_DUE ON QRTZ_EXECUTE (application, pid, shard, next_fire_time, id)
    WHERE state = 'EXECUTING';

DROP INDEX IF EXISTS QRTZ_EXECUTE_DUE;
