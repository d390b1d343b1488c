-- touched counts how often a row was written for the sake of a decision that rests on it: on a Galera cluster
-- only that keeps two members from deciding at once.
--
-- Applications, nodes and jobs may be paused: states are Y and N; of a node also D while it drains and E
-- once nothing of it is left; of a job EXECUTING and PAUSED. pause_ends is when the next pause of anything in
-- the application ends by itself, or earlier. After silent_after without a heartbeat nobody hears of a node.
CREATE TABLE IF NOT EXISTS QRTZ_APP (
    application VARCHAR(50) NOT NULL PRIMARY KEY,
    state CHAR(1) NOT NULL DEFAULT 'Y',
    time_pre BIGINT NOT NULL DEFAULT -1,
    time_next BIGINT NOT NULL DEFAULT -1,
    time_interval BIGINT NOT NULL DEFAULT -1,
    ledger_from BIGINT NOT NULL DEFAULT -1,
    fence_from BIGINT NOT NULL DEFAULT 0,
    pause_ends BIGINT NOT NULL DEFAULT -1,
    touched BIGINT,
    paused_time BIGINT NOT NULL DEFAULT -1,
    paused_until BIGINT NOT NULL DEFAULT -1,
    paused_by VARCHAR(200) NOT NULL DEFAULT '',
    reason VARCHAR(500) NOT NULL DEFAULT ''
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

CREATE TABLE IF NOT EXISTS QRTZ_NODE (
    uuid VARCHAR(36) NOT NULL PRIMARY KEY,
    application VARCHAR(50) NOT NULL,
    host_ip VARCHAR(50) NOT NULL DEFAULT '',
    host_name VARCHAR(255) NOT NULL DEFAULT '',
    pid BIGINT NOT NULL DEFAULT -1,
    state CHAR(1) NOT NULL DEFAULT 'Y',
    beat BIGINT NOT NULL DEFAULT 0,
    jobs LONGTEXT NOT NULL,
    blocked LONGTEXT NOT NULL DEFAULT '[]',
    lanes LONGTEXT NOT NULL DEFAULT '',
    left_alone TEXT NOT NULL DEFAULT '[]',
    silent_after BIGINT NOT NULL DEFAULT -1,
    started_time BIGINT NOT NULL DEFAULT -1,
    beat_time BIGINT NOT NULL DEFAULT -1,
    told_time BIGINT NOT NULL DEFAULT -1,
    ended_time BIGINT NOT NULL DEFAULT -1,
    end_reason VARCHAR(20) NOT NULL DEFAULT '',
    paused_time BIGINT NOT NULL DEFAULT -1,
    paused_until BIGINT NOT NULL DEFAULT -1,
    paused_by VARCHAR(200) NOT NULL DEFAULT '',
    reason VARCHAR(500) NOT NULL DEFAULT ''
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

CREATE INDEX IF NOT EXISTS QRTZ_NODE_LIVE ON QRTZ_NODE (application, ended_time);
CREATE INDEX IF NOT EXISTS QRTZ_NODE_TOLD ON QRTZ_NODE (application, told_time);

-- nobody_time is since when nobody can run a job that has something to run: no live node that claims lists
-- it. nobody_told is when nodes told of that last.
CREATE TABLE IF NOT EXISTS QRTZ_JOB (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    application VARCHAR(50) NOT NULL,
    state VARCHAR(20) NOT NULL DEFAULT 'EXECUTING',
    job_class VARCHAR(200) NOT NULL,
    job_data LONGTEXT,
    update_time BIGINT NOT NULL DEFAULT -1,
    recover BIGINT NOT NULL DEFAULT 1,
    max_attempts BIGINT NOT NULL DEFAULT 2,
    max_retries BIGINT NOT NULL DEFAULT 0,
    retry_delay BIGINT NOT NULL DEFAULT 0,
    retry_cap BIGINT NOT NULL DEFAULT 0,
    retry_jitter BIGINT NOT NULL DEFAULT 0,
    time_limit BIGINT NOT NULL DEFAULT 0,
    concurrency BIGINT NOT NULL DEFAULT 0,
    rate_count BIGINT NOT NULL DEFAULT 0,
    rate_per BIGINT NOT NULL DEFAULT 0,
    group_concurrency BIGINT NOT NULL DEFAULT 0,
    group_rate_count BIGINT NOT NULL DEFAULT 0,
    group_rate_per BIGINT NOT NULL DEFAULT 0,
    description VARCHAR(500) NOT NULL DEFAULT '',
    touched BIGINT,
    nobody_time BIGINT NOT NULL DEFAULT -1,
    nobody_told BIGINT NOT NULL DEFAULT -1,
    paused_time BIGINT NOT NULL DEFAULT -1,
    paused_until BIGINT NOT NULL DEFAULT -1,
    paused_by VARCHAR(200) NOT NULL DEFAULT '',
    reason VARCHAR(500) NOT NULL DEFAULT '',
    UNIQUE (application, job_class)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- Schedules, and for each job with enqueued executions its queue (job_type QUEUE), which never fires.
-- Numbers first: what a fixed place has is found without reading what is before it. paused_time is when a
-- schedule was paused or went into ERROR, for people; resumed_time is the instant up to which a resume has
-- passed what was planned. The slot is the occurrence that was claimed last, where executions must not
-- overlap.
-- owner: in whose code it lives; by_hand: the fields that an operator has changed since, by commas.
CREATE TABLE IF NOT EXISTS QRTZ_EXECUTE (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    shard BIGINT NOT NULL DEFAULT 0,
    slot_generation BIGINT NOT NULL DEFAULT -1,
    slot_origin BIGINT NOT NULL DEFAULT -1,
    slot_time BIGINT NOT NULL DEFAULT -1,
    version BIGINT NOT NULL DEFAULT 0,
    generation BIGINT NOT NULL DEFAULT 0,
    fence BIGINT NOT NULL DEFAULT 0,
    priority BIGINT NOT NULL DEFAULT 0,
    threshold BIGINT NOT NULL DEFAULT 60000,
    time_triggered BIGINT NOT NULL DEFAULT 0,
    paused_until BIGINT NOT NULL DEFAULT -1,
    paused_time BIGINT NOT NULL DEFAULT -1,
    pid BIGINT,
    prev_fire_time BIGINT DEFAULT -1,
    next_fire_time BIGINT DEFAULT -1,
    start_time BIGINT DEFAULT -1,
    end_time BIGINT DEFAULT -1,
    repeat_count BIGINT DEFAULT -1,
    repeat_interval BIGINT DEFAULT -1,
    time_limit BIGINT,
    pause_after BIGINT,
    resumed_time BIGINT,
    expected_by BIGINT,
    touched BIGINT,
    state VARCHAR(20),
    application VARCHAR(50) NOT NULL,
    job_type VARCHAR(20),
    name VARCHAR(206) NOT NULL,
    cron VARCHAR(200),
    zone_id VARCHAR(80),
    payload LONGTEXT NOT NULL,
    misfire VARCHAR(20) NOT NULL DEFAULT 'FIRE_ONCE',
    dst_gap VARCHAR(20) NOT NULL DEFAULT 'FIRE_AFTER',
    dst_fold VARCHAR(20) NOT NULL DEFAULT 'FIRST',
    overlap VARCHAR(20) NOT NULL DEFAULT 'ALLOW',
    reason VARCHAR(500) NOT NULL DEFAULT '',
    paused_by VARCHAR(200) NOT NULL DEFAULT '',
    description VARCHAR(500) NOT NULL DEFAULT '',
    owner VARCHAR(100),
    by_hand VARCHAR(200),
    UNIQUE (application, name)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- Led by the job: whoever runs one job never reads another's rows.
CREATE INDEX IF NOT EXISTS QRTZ_EXECUTE_JOB_DUE ON QRTZ_EXECUTE (application, state, pid, shard, next_fire_time);

-- The triggers that schedules have had and have: a row for each generation, written when it begins and when
-- it ends. first_fire_time is the first fire time that was planned, last_fire_time the last that was claimed
-- or passed before the end, end_state the state until then.
CREATE TABLE IF NOT EXISTS QRTZ_TRIGGER (
    execute_id BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    begun_time BIGINT NOT NULL,
    ended_time BIGINT NOT NULL DEFAULT -1,
    first_fire_time BIGINT NOT NULL DEFAULT -1,
    last_fire_time BIGINT NOT NULL DEFAULT -1,
    start_time BIGINT,
    end_time BIGINT,
    repeat_count BIGINT,
    repeat_interval BIGINT,
    application VARCHAR(50) NOT NULL,
    job_type VARCHAR(20),
    cron VARCHAR(200),
    zone_id VARCHAR(80),
    dst_gap VARCHAR(20),
    dst_fold VARCHAR(20),
    end_state VARCHAR(20) NOT NULL DEFAULT '',
    PRIMARY KEY (execute_id, generation)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

CREATE INDEX IF NOT EXISTS QRTZ_TRIGGER_ENDED ON QRTZ_TRIGGER (application, ended_time);

-- The schedules of an owner.
CREATE INDEX IF NOT EXISTS QRTZ_EXECUTE_OWNER ON QRTZ_EXECUTE (application, owner);

-- Owners of schedules that live in code: the highest revision of that code that is known, and who synced
-- last.
CREATE TABLE IF NOT EXISTS QRTZ_OWNER (
    application VARCHAR(50) NOT NULL,
    owner VARCHAR(100) NOT NULL,
    revision BIGINT NOT NULL,
    synced_time BIGINT NOT NULL,
    actor VARCHAR(200) NOT NULL DEFAULT '',
    touched BIGINT,
    PRIMARY KEY (application, owner)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- holder: the execution that a skipped one gave way to, or of a withdrawn one the change's row of QRTZ_AUDIT.
CREATE TABLE IF NOT EXISTS QRTZ_RUN (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    execute_id BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    origin BIGINT NOT NULL DEFAULT 0,
    scheduled_time BIGINT NOT NULL,
    until_time BIGINT NOT NULL DEFAULT -1,
    occurrences BIGINT NOT NULL DEFAULT 1,
    attempt BIGINT NOT NULL,
    due_time BIGINT NOT NULL,
    fence BIGINT NOT NULL DEFAULT 0,
    claimed_time BIGINT NOT NULL DEFAULT -1,
    started_time BIGINT NOT NULL DEFAULT -1,
    finished_time BIGINT NOT NULL DEFAULT -1,
    prev_fire_time BIGINT NOT NULL DEFAULT -1,
    following_fire_time BIGINT NOT NULL DEFAULT -1,
    state VARCHAR(20) NOT NULL,
    application VARCHAR(50) NOT NULL,
    claim_token VARCHAR(36) NOT NULL DEFAULT '',
    node VARCHAR(36) NOT NULL DEFAULT '',
    reason VARCHAR(200) NOT NULL DEFAULT '',
    cause VARCHAR(20),
    holder BIGINT,
    waited_for VARCHAR(100),
    failures BIGINT,
    snoozes BIGINT,
    priority BIGINT,
    key_period BIGINT,
    touched BIGINT,
    unique_key VARCHAR(200),
    group_key VARCHAR(200),
    lane VARCHAR(50),
    tags TEXT,
    headers TEXT,
    error LONGTEXT,
    result LONGTEXT,
    payload LONGTEXT,
    checkpoint LONGTEXT,
    queue BIGINT GENERATED ALWAYS AS (CASE WHEN origin >= 1152921504606846976 THEN execute_id ELSE 0 END) STORED,
    ended VARCHAR(20) GENERATED ALWAYS AS (CASE WHEN state NOT IN ('PENDING', 'CLAIMED', 'RUNNING', 'SUCCEEDED')
        THEN state END) VIRTUAL,
    UNIQUE (execute_id, generation, origin, scheduled_time, attempt)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- Enqueued executions lie apart by their queue: whoever runs one job never reads another's.
CREATE INDEX IF NOT EXISTS QRTZ_RUN_OPEN ON QRTZ_RUN (application, state, queue, due_time);

-- For lists (ADR 65).
CREATE INDEX IF NOT EXISTS QRTZ_RUN_TIME ON QRTZ_RUN (scheduled_time);
CREATE INDEX IF NOT EXISTS QRTZ_RUN_ENDED ON QRTZ_RUN (application, ended, scheduled_time);
CREATE INDEX IF NOT EXISTS QRTZ_RUN_GROUP ON QRTZ_RUN (application, group_key, scheduled_time);
CREATE INDEX IF NOT EXISTS QRTZ_RUN_CAUSE ON QRTZ_RUN (application, cause, scheduled_time);
CREATE INDEX IF NOT EXISTS QRTZ_RUN_SPAN ON QRTZ_RUN (application, until_time);

-- Executions that somebody asked to cancel while they ran: who, when, and when their node heard of it.
CREATE TABLE IF NOT EXISTS QRTZ_CANCEL (
    execution_id BIGINT NOT NULL PRIMARY KEY,
    application VARCHAR(50) NOT NULL,
    asked_time BIGINT NOT NULL,
    seen_time BIGINT NOT NULL DEFAULT -1,
    actor VARCHAR(200) NOT NULL,
    reason VARCHAR(500) NOT NULL DEFAULT ''
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- What the handlers of executions have said, of those that said something: their newest lines, each as
-- [fence, number, epoch milliseconds, level, text], and how far they have come; -1 if they did not tell.
CREATE TABLE IF NOT EXISTS QRTZ_SAID (
    execution_id BIGINT NOT NULL PRIMARY KEY,
    application VARCHAR(50) NOT NULL,
    said_lines LONGTEXT NOT NULL,
    progress_done BIGINT NOT NULL DEFAULT -1,
    progress_total BIGINT NOT NULL DEFAULT -1,
    changed_time BIGINT NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

CREATE INDEX IF NOT EXISTS QRTZ_SAID_CHANGED ON QRTZ_SAID (application, changed_time);

-- Outcomes of attempts that ended within an hour, or a day (hours is 1 or 24): how many of each state, and of
-- those whose handler began (begun) how long it was late and took; milliseconds. Days have no node.
CREATE TABLE IF NOT EXISTS QRTZ_OUTCOME (
    application VARCHAR(50) NOT NULL,
    hours BIGINT NOT NULL,
    from_time BIGINT NOT NULL,
    job VARCHAR(200) NOT NULL,
    node VARCHAR(36) NOT NULL,
    succeeded BIGINT NOT NULL DEFAULT 0,
    failed BIGINT NOT NULL DEFAULT 0,
    timed_out BIGINT NOT NULL DEFAULT 0,
    cancelled BIGINT NOT NULL DEFAULT 0,
    abandoned BIGINT NOT NULL DEFAULT 0,
    begun BIGINT NOT NULL DEFAULT 0,
    lateness_sum BIGINT NOT NULL DEFAULT 0,
    duration_sum BIGINT NOT NULL DEFAULT 0,
    lateness_max BIGINT NOT NULL DEFAULT 0,
    duration_max BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (application, hours, from_time, job, node)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- The same of one transaction, until upkeep adds them to QRTZ_OUTCOME. first_run is the lowest of the executions.
CREATE TABLE IF NOT EXISTS QRTZ_OUTCOME_NEW (
    application VARCHAR(50) NOT NULL,
    first_run BIGINT NOT NULL,
    from_time BIGINT NOT NULL,
    job VARCHAR(200) NOT NULL,
    node VARCHAR(36) NOT NULL,
    succeeded BIGINT NOT NULL DEFAULT 0,
    failed BIGINT NOT NULL DEFAULT 0,
    timed_out BIGINT NOT NULL DEFAULT 0,
    cancelled BIGINT NOT NULL DEFAULT 0,
    abandoned BIGINT NOT NULL DEFAULT 0,
    begun BIGINT NOT NULL DEFAULT 0,
    lateness_sum BIGINT NOT NULL DEFAULT 0,
    duration_sum BIGINT NOT NULL DEFAULT 0,
    lateness_max BIGINT NOT NULL DEFAULT 0,
    duration_max BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (application, first_run)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- Schedules that are to succeed within expected_by of each fire time. unmet_time is the first fire time whose
-- occurrence has not, nor a later one. A row is made by the misfire handler; claims never write here.
CREATE TABLE IF NOT EXISTS QRTZ_EXPECTED (
    application VARCHAR(50) NOT NULL,
    id BIGINT NOT NULL,
    unmet_time BIGINT NOT NULL DEFAULT -1,
    PRIMARY KEY (application, id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

CREATE INDEX IF NOT EXISTS QRTZ_EXPECTED_UNMET ON QRTZ_EXPECTED (application, unmet_time);

-- Executions that ran out of time and whose handlers have not returned.
CREATE TABLE IF NOT EXISTS QRTZ_STUCK (
    execution_id BIGINT NOT NULL PRIMARY KEY,
    application VARCHAR(50) NOT NULL,
    node VARCHAR(36) NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- Executions of jobs with bounds: those that may be under way, and those to begin within the span of a rate.
-- A claim locks the job's row, looks which of its groups' (or of all) count, and removes the others.
CREATE TABLE IF NOT EXISTS QRTZ_BOUNDED (
    job_id BIGINT NOT NULL,
    group_key VARCHAR(200) NOT NULL DEFAULT '',
    execution_id BIGINT NOT NULL,
    begin_time BIGINT NOT NULL DEFAULT -1,
    PRIMARY KEY (job_id, group_key, execution_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- Unique keys of enqueued executions: the execution (by its origin) that was enqueued last with each. Whether
-- it still keeps others away says its own state. key_period is when the period of its due time begins; -1
-- where the key is for all times.
CREATE TABLE IF NOT EXISTS QRTZ_KEY (
    unique_key VARCHAR(200) NOT NULL,
    execute_id BIGINT NOT NULL,
    key_period BIGINT NOT NULL DEFAULT -1,
    origin BIGINT NOT NULL,
    touched BIGINT,
    PRIMARY KEY (unique_key, execute_id, key_period)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- By which tags enqueued executions are found: by queue and origin, which all attempts at one share. The
-- executions' own rows have them, too, as a JSON array.
CREATE TABLE IF NOT EXISTS QRTZ_TAG (
    tag VARCHAR(100) NOT NULL,
    execute_id BIGINT NOT NULL,
    origin BIGINT NOT NULL,
    PRIMARY KEY (tag, execute_id, origin)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- Who changed what by a client or the program: written in the transaction of the change. fields: those of a
-- schedule that an edit changed, by commas.
CREATE TABLE IF NOT EXISTS QRTZ_AUDIT (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    application VARCHAR(50) NOT NULL,
    made_time BIGINT NOT NULL,
    actor VARCHAR(200) NOT NULL,
    verb VARCHAR(20) NOT NULL,
    target_type VARCHAR(20) NOT NULL,
    target VARCHAR(200) NOT NULL,
    was LONGTEXT NOT NULL,
    became LONGTEXT NOT NULL,
    fields VARCHAR(200),
    reason VARCHAR(500) NOT NULL DEFAULT ''
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

CREATE INDEX IF NOT EXISTS QRTZ_AUDIT_TIME ON QRTZ_AUDIT (application, made_time);

-- Requests of other programs: a row is a verb with its arguments as JSON, inserted in that program's own
-- transaction. A node carries it out and says what became of it: state is REQUESTED, DONE or REFUSED; the
-- answer is a word, or the reason of a refusal.
CREATE TABLE IF NOT EXISTS QRTZ_REQUEST (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    application VARCHAR(50) NOT NULL,
    verb VARCHAR(20) NOT NULL,
    arguments LONGTEXT NOT NULL,
    actor VARCHAR(200) NOT NULL DEFAULT CURRENT_USER(),
    requested_time BIGINT NOT NULL DEFAULT (CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000) AS SIGNED)),
    state VARCHAR(20) NOT NULL DEFAULT 'REQUESTED',
    execution_id BIGINT,
    answer VARCHAR(500) NOT NULL DEFAULT '',
    ended_time BIGINT NOT NULL DEFAULT -1
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

CREATE INDEX IF NOT EXISTS QRTZ_REQUEST_OPEN ON QRTZ_REQUEST (application, state, id);
CREATE INDEX IF NOT EXISTS QRTZ_REQUEST_ENDED ON QRTZ_REQUEST (application, ended_time);

-- An instant nobody can mean has no date: one such row must not make the whole view fail.
CREATE OR REPLACE VIEW qrtz_claimed AS
SELECT r.id AS execution_id, r.application, e.name AS schedule, j.job_class AS job, r.state, r.node,
       COALESCE(n.host_name, '') AS host_name,
       CASE WHEN r.scheduled_time BETWEEN 0 AND 253402300799999
            THEN LEFT(CAST(TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL r.scheduled_time * 1000 MICROSECOND AS CHAR), 23) END AS scheduled_time,
       CASE WHEN r.claimed_time BETWEEN 0 AND 253402300799999
            THEN LEFT(CAST(TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL r.claimed_time * 1000 MICROSECOND AS CHAR), 23) END AS claimed_since,
       CASE WHEN r.started_time BETWEEN 0 AND 253402300799999
            THEN LEFT(CAST(TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL r.started_time * 1000 MICROSECOND AS CHAR), 23) END AS started_since,
       r.attempt
  FROM QRTZ_RUN r
  LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id
  LEFT JOIN QRTZ_JOB j ON j.id = e.pid
  LEFT JOIN QRTZ_NODE n ON n.uuid = r.node
 WHERE r.state IN ('CLAIMED', 'RUNNING');

CREATE OR REPLACE VIEW qrtz_ledger AS
SELECT r.id AS execution_id, r.application, e.name AS schedule, r.generation, r.origin,
       CASE WHEN r.scheduled_time BETWEEN 0 AND 253402300799999
            THEN LEFT(CAST(TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL r.scheduled_time * 1000 MICROSECOND AS CHAR), 23) END AS scheduled_time,
       CASE WHEN r.until_time BETWEEN 0 AND 253402300799999
            THEN LEFT(CAST(TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL r.until_time * 1000 MICROSECOND AS CHAR), 23) END AS until_time,
       r.occurrences, r.attempt, r.state, r.reason, r.node,
       CASE WHEN r.started_time BETWEEN 0 AND 253402300799999
            THEN LEFT(CAST(TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL r.started_time * 1000 MICROSECOND AS CHAR), 23) END AS started,
       CASE WHEN r.finished_time BETWEEN 0 AND 253402300799999
            THEN LEFT(CAST(TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL r.finished_time * 1000 MICROSECOND AS CHAR), 23) END AS finished,
       r.error
  FROM QRTZ_RUN r
  LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id
 WHERE r.state NOT IN ('PENDING', 'CLAIMED', 'RUNNING');

-- Executions as other programs may read them: these columns stay. An enqueued one has no schedule.
CREATE OR REPLACE VIEW qrtz_executions AS
SELECT r.id AS execution_id, r.application, j.job_class AS job,
       CASE WHEN e.job_type = 'QUEUE' THEN NULL ELSE e.name END AS schedule,
       r.state, r.reason, r.attempt, r.unique_key, r.group_key, r.lane, r.tags, r.headers,
       CASE WHEN r.scheduled_time BETWEEN 0 AND 253402300799999
            THEN LEFT(CAST(TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL r.scheduled_time * 1000 MICROSECOND AS CHAR), 23) END AS scheduled_time,
       CASE WHEN r.due_time BETWEEN 0 AND 253402300799999
            THEN LEFT(CAST(TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL r.due_time * 1000 MICROSECOND AS CHAR), 23) END AS due_time,
       CASE WHEN r.started_time BETWEEN 0 AND 253402300799999
            THEN LEFT(CAST(TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL r.started_time * 1000 MICROSECOND AS CHAR), 23) END AS started_time,
       CASE WHEN r.finished_time BETWEEN 0 AND 253402300799999
            THEN LEFT(CAST(TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL r.finished_time * 1000 MICROSECOND AS CHAR), 23) END AS finished_time,
       r.node, r.payload, r.result, r.error
  FROM QRTZ_RUN r
  LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id
  LEFT JOIN QRTZ_JOB j ON j.id = e.pid;

-- Which live node has a handler for which job, and whether it claims.
CREATE OR REPLACE VIEW qrtz_handlers AS
SELECT n.application, n.uuid AS node, j.id AS job_id, j.job_class AS job,
       CASE WHEN n.state = 'Y' THEN 1 ELSE 0 END AS claims
  FROM QRTZ_NODE n
  JOIN QRTZ_JOB j ON j.application = n.application AND INSTR(n.jobs, CONCAT('"', j.job_class, '"')) > 0
 WHERE n.ended_time = -1;

-- What should have begun a minute ago: schedules, and executions that wait. held_by says what is paused.
CREATE OR REPLACE VIEW qrtz_late AS
SELECT 'schedule' AS kind, e.id, e.application, e.name AS schedule, j.job_class AS job,
       CASE WHEN e.next_fire_time BETWEEN 0 AND 253402300799999
            THEN LEFT(CAST(TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL e.next_fire_time * 1000 MICROSECOND AS CHAR), 23) END AS due,
       (CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000) AS SIGNED) - e.next_fire_time) / 1000 AS late_seconds,
       (SELECT COUNT(*) FROM qrtz_handlers h WHERE h.job_id = j.id AND h.claims = 1) AS nodes,
       CASE WHEN (SELECT a.state FROM QRTZ_APP a WHERE a.application = e.application) <> 'Y' THEN 'application paused'
            WHEN j.state <> 'EXECUTING' THEN 'job paused' ELSE '' END AS held_by
  FROM QRTZ_EXECUTE e
  LEFT JOIN QRTZ_JOB j ON j.id = e.pid
 WHERE e.state = 'EXECUTING' AND e.next_fire_time < CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000) AS SIGNED) - 60000
UNION ALL
SELECT 'execution' AS kind, r.id, r.application, e.name AS schedule, j.job_class AS job,
       CASE WHEN r.due_time BETWEEN 0 AND 253402300799999
            THEN LEFT(CAST(TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL r.due_time * 1000 MICROSECOND AS CHAR), 23) END AS due,
       (CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000) AS SIGNED) - r.due_time) / 1000 AS late_seconds,
       (SELECT COUNT(*) FROM qrtz_handlers h WHERE h.job_id = j.id AND h.claims = 1) AS nodes,
       CASE WHEN e.state = 'PAUSED' THEN 'schedule paused' ELSE CASE WHEN (SELECT a.state FROM QRTZ_APP a WHERE a.application = r.application) <> 'Y' THEN 'application paused'
            WHEN j.state <> 'EXECUTING' THEN 'job paused' ELSE '' END END AS held_by
  FROM QRTZ_RUN r
  LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id
  LEFT JOIN QRTZ_JOB j ON j.id = e.pid
 WHERE r.state = 'PENDING' AND r.due_time < CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000) AS SIGNED) - 60000;

-- What failed, died with its node, or ran out of time.
CREATE OR REPLACE VIEW qrtz_failed AS
SELECT r.id AS execution_id, r.application, e.name AS schedule, j.job_class AS job, r.attempt, r.state, r.reason,
       r.node, CASE WHEN r.started_time BETWEEN 0 AND 253402300799999
            THEN LEFT(CAST(TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL r.started_time * 1000 MICROSECOND AS CHAR), 23) END AS started,
       CASE WHEN r.finished_time BETWEEN 0 AND 253402300799999
            THEN LEFT(CAST(TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL r.finished_time * 1000 MICROSECOND AS CHAR), 23) END AS finished,
       CASE WHEN r.finished_time >= 0 THEN (CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000) AS SIGNED) - r.finished_time) / 1000 END AS seconds_ago, r.error
  FROM QRTZ_RUN r
  LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id
  LEFT JOIN QRTZ_JOB j ON j.id = e.pid
 WHERE r.state IN ('FAILED', 'TIMED_OUT', 'ABANDONED');
