-- Led by the job: whoever runs one job never reads another's rows.
CREATE INDEX IF NOT EXISTS QRTZ_EXECUTE_JOB_DUE ON QRTZ_EXECUTE (application, state, pid, shard, next_fire_time);

DROP INDEX IF EXISTS QRTZ_EXECUTE_DUE ON QRTZ_EXECUTE;

-- When a schedule was paused, for people.
ALTER TABLE QRTZ_EXECUTE ADD COLUMN IF NOT EXISTS paused_time BIGINT NOT NULL DEFAULT -1;
