-- Led by the job: whoever runs one job never reads another's rows.
CREATE INDEX IF NOT EXISTS QRTZ_EXECUTE_JOB_DUE ON QRTZ_EXECUTE (application, pid, shard, next_fire_time)
    WHERE state = 'EXECUTING';

DROP INDEX IF EXISTS QRTZ_EXECUTE_DUE;

-- When a schedule was paused, for people.
ALTER TABLE QRTZ_EXECUTE ADD COLUMN paused_time BIGINT NOT NULL DEFAULT -1;
