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
    paused_time BIGINT NOT NULL DEFAULT -1,
    paused_until BIGINT NOT NULL DEFAULT -1,
    paused_by VARCHAR(200) NOT NULL DEFAULT '',
    reason VARCHAR(500) NOT NULL DEFAULT ''
);

CREATE TABLE IF NOT EXISTS QRTZ_NODE (
    uuid VARCHAR(36) NOT NULL PRIMARY KEY,
    application VARCHAR(50) NOT NULL,
    host_ip VARCHAR(50) NOT NULL DEFAULT '',
    host_name VARCHAR(255) NOT NULL DEFAULT '',
    pid BIGINT NOT NULL DEFAULT -1,
    state CHAR(1) NOT NULL DEFAULT 'Y',
    beat BIGINT NOT NULL DEFAULT 0,
    jobs TEXT NOT NULL,
    blocked TEXT NOT NULL DEFAULT '[]',
    lanes TEXT NOT NULL DEFAULT '',
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
);

CREATE INDEX IF NOT EXISTS QRTZ_NODE_LIVE ON QRTZ_NODE (application, ended_time);
CREATE INDEX IF NOT EXISTS QRTZ_NODE_TOLD ON QRTZ_NODE (application, told_time);

-- nobody_time is since when nobody can run a job that has something to run: no live node that claims lists
-- it. nobody_told is when nodes told of that last.
CREATE TABLE IF NOT EXISTS QRTZ_JOB (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    application VARCHAR(50) NOT NULL,
    state VARCHAR(20) NOT NULL DEFAULT 'EXECUTING',
    job_class VARCHAR(200) NOT NULL,
    job_data TEXT,
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
    nobody_time BIGINT NOT NULL DEFAULT -1,
    nobody_told BIGINT NOT NULL DEFAULT -1,
    paused_time BIGINT NOT NULL DEFAULT -1,
    paused_until BIGINT NOT NULL DEFAULT -1,
    paused_by VARCHAR(200) NOT NULL DEFAULT '',
    reason VARCHAR(500) NOT NULL DEFAULT '',
    UNIQUE (application, job_class)
);

-- Schedules, and for each job with enqueued executions its queue (job_type QUEUE), which never fires.
-- Numbers first: what a fixed place has is found without reading what is before it. paused_time is when a
-- schedule was paused or went into ERROR, for people; resumed_time is the instant up to which a resume has
-- passed what was planned. The slot is the occurrence that was claimed last, where executions must not
-- overlap.
-- owner: in whose code it lives; by_hand: the fields that an operator has changed since, by commas.
CREATE TABLE IF NOT EXISTS QRTZ_EXECUTE (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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
    state VARCHAR(20),
    application VARCHAR(50) NOT NULL,
    job_type VARCHAR(20),
    name VARCHAR(206) NOT NULL,
    cron VARCHAR(200),
    zone_id VARCHAR(80),
    payload TEXT NOT NULL,
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
);

-- Led by the job: whoever runs one job never reads another's rows.
CREATE INDEX IF NOT EXISTS QRTZ_EXECUTE_JOB_DUE ON QRTZ_EXECUTE (application, pid, shard, next_fire_time)
    WHERE state = 'EXECUTING';

-- Pauses that end by themselves.
CREATE INDEX IF NOT EXISTS QRTZ_EXECUTE_PAUSED ON QRTZ_EXECUTE (application, paused_until)
    WHERE paused_until <> -1;

-- Of lists of schedules. No claim writes it: an active schedule has no entry.
CREATE INDEX IF NOT EXISTS QRTZ_EXECUTE_HELD ON QRTZ_EXECUTE (application, state, name)
    WHERE state IN ('PAUSED', 'ERROR');

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
);

CREATE INDEX IF NOT EXISTS QRTZ_TRIGGER_ENDED ON QRTZ_TRIGGER (application, ended_time);

-- The schedules of an owner.
CREATE INDEX IF NOT EXISTS QRTZ_EXECUTE_OWNER ON QRTZ_EXECUTE (application, owner)
    WHERE owner IS NOT NULL;

-- Owners of schedules that live in code: the highest revision of that code that is known, and who synced
-- last.
CREATE TABLE IF NOT EXISTS QRTZ_OWNER (
    application VARCHAR(50) NOT NULL,
    owner VARCHAR(100) NOT NULL,
    revision BIGINT NOT NULL,
    synced_time BIGINT NOT NULL,
    actor VARCHAR(200) NOT NULL DEFAULT '',
    PRIMARY KEY (application, owner)
);

-- holder: the execution that a skipped one gave way to, or of a withdrawn one the change's row of QRTZ_AUDIT.
CREATE TABLE IF NOT EXISTS QRTZ_RUN (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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
    unique_key VARCHAR(200),
    group_key VARCHAR(200),
    lane VARCHAR(50),
    tags TEXT,
    headers TEXT,
    error TEXT,
    result TEXT,
    payload TEXT,
    checkpoint TEXT,
    queue BIGINT GENERATED ALWAYS AS (CASE WHEN origin >= 1152921504606846976 THEN execute_id ELSE 0 END) VIRTUAL,
    ended VARCHAR(20) GENERATED ALWAYS AS (CASE WHEN state NOT IN ('PENDING', 'CLAIMED', 'RUNNING', 'SUCCEEDED')
        THEN state END) VIRTUAL,
    UNIQUE (execute_id, generation, origin, scheduled_time, attempt)
);

-- Enqueued executions lie apart by their queue: whoever runs one job never reads another's. Written with OR because
-- SQLite matches a partial index term by term.
CREATE INDEX IF NOT EXISTS QRTZ_RUN_OPEN ON QRTZ_RUN (application, state, queue, due_time)
    WHERE state = 'PENDING' OR state = 'CLAIMED' OR state = 'RUNNING';

-- For lists (ADR 65).
CREATE INDEX IF NOT EXISTS QRTZ_RUN_TIME ON QRTZ_RUN (scheduled_time);
CREATE INDEX IF NOT EXISTS QRTZ_RUN_ENDED ON QRTZ_RUN (application, ended, scheduled_time) WHERE ended IS NOT NULL;
CREATE INDEX IF NOT EXISTS QRTZ_RUN_GROUP ON QRTZ_RUN (application, group_key, scheduled_time)
    WHERE group_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS QRTZ_RUN_CAUSE ON QRTZ_RUN (application, cause, scheduled_time)
    WHERE cause <> 'enqueued';
CREATE INDEX IF NOT EXISTS QRTZ_RUN_SPAN ON QRTZ_RUN (application, until_time) WHERE until_time <> -1;

-- Executions that somebody asked to cancel while they ran: who, when, and when their node heard of it.
CREATE TABLE IF NOT EXISTS QRTZ_CANCEL (
    execution_id BIGINT NOT NULL PRIMARY KEY,
    application VARCHAR(50) NOT NULL,
    asked_time BIGINT NOT NULL,
    seen_time BIGINT NOT NULL DEFAULT -1,
    actor VARCHAR(200) NOT NULL,
    reason VARCHAR(500) NOT NULL DEFAULT ''
);

-- What the handlers of executions have said, of those that said something: their newest lines, each as
-- [fence, number, epoch milliseconds, level, text], and how far they have come; -1 if they did not tell.
CREATE TABLE IF NOT EXISTS QRTZ_SAID (
    execution_id BIGINT NOT NULL PRIMARY KEY,
    application VARCHAR(50) NOT NULL,
    said_lines TEXT NOT NULL,
    progress_done BIGINT NOT NULL DEFAULT -1,
    progress_total BIGINT NOT NULL DEFAULT -1,
    changed_time BIGINT NOT NULL
);

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
);

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
);

-- Schedules that are to succeed within expected_by of each fire time. unmet_time is the first fire time whose
-- occurrence has not, nor a later one. A row is made by the misfire handler; claims never write here.
CREATE TABLE IF NOT EXISTS QRTZ_EXPECTED (
    application VARCHAR(50) NOT NULL,
    id BIGINT NOT NULL,
    unmet_time BIGINT NOT NULL DEFAULT -1,
    PRIMARY KEY (application, id)
);

CREATE INDEX IF NOT EXISTS QRTZ_EXPECTED_UNMET ON QRTZ_EXPECTED (application, id) WHERE unmet_time <> -1;

-- Executions that ran out of time and whose handlers have not returned.
CREATE TABLE IF NOT EXISTS QRTZ_STUCK (
    execution_id BIGINT NOT NULL PRIMARY KEY,
    application VARCHAR(50) NOT NULL,
    node VARCHAR(36) NOT NULL
);

-- Executions of jobs with bounds: those that may be under way, and those to begin within the span of a rate.
-- A claim locks the job's row, looks which of its groups' (or of all) count, and removes the others.
CREATE TABLE IF NOT EXISTS QRTZ_BOUNDED (
    job_id BIGINT NOT NULL,
    group_key VARCHAR(200) NOT NULL DEFAULT '',
    execution_id BIGINT NOT NULL,
    begin_time BIGINT NOT NULL DEFAULT -1,
    PRIMARY KEY (job_id, group_key, execution_id)
);

-- Unique keys of enqueued executions: the execution (by its origin) that was enqueued last with each. Whether
-- it still keeps others away says its own state. key_period is when the period of its due time begins; -1
-- where the key is for all times.
CREATE TABLE IF NOT EXISTS QRTZ_KEY (
    unique_key VARCHAR(200) NOT NULL,
    execute_id BIGINT NOT NULL,
    key_period BIGINT NOT NULL DEFAULT -1,
    origin BIGINT NOT NULL,
    PRIMARY KEY (unique_key, execute_id, key_period)
);

-- By which tags enqueued executions are found: by queue and origin, which all attempts at one share. The
-- executions' own rows have them, too, as a JSON array.
CREATE TABLE IF NOT EXISTS QRTZ_TAG (
    tag VARCHAR(100) NOT NULL,
    execute_id BIGINT NOT NULL,
    origin BIGINT NOT NULL,
    PRIMARY KEY (tag, execute_id, origin)
);

-- Who changed what by a client or the program: written in the transaction of the change. fields: those of a
-- schedule that an edit changed, by commas.
CREATE TABLE IF NOT EXISTS QRTZ_AUDIT (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    application VARCHAR(50) NOT NULL,
    made_time BIGINT NOT NULL,
    actor VARCHAR(200) NOT NULL,
    verb VARCHAR(20) NOT NULL,
    target_type VARCHAR(20) NOT NULL,
    target VARCHAR(200) NOT NULL,
    was TEXT NOT NULL,
    became TEXT NOT NULL,
    fields VARCHAR(200),
    reason VARCHAR(500) NOT NULL DEFAULT ''
);

CREATE INDEX IF NOT EXISTS QRTZ_AUDIT_TIME ON QRTZ_AUDIT (application, made_time);

-- Requests of other programs: a row is a verb with its arguments as JSON, inserted in that program's own
-- transaction. A node carries it out and says what became of it: state is REQUESTED, DONE or REFUSED; the
-- answer is a word, or the reason of a refusal.
CREATE TABLE IF NOT EXISTS QRTZ_REQUEST (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    application VARCHAR(50) NOT NULL,
    verb VARCHAR(20) NOT NULL,
    arguments TEXT NOT NULL,
    actor VARCHAR(200) NOT NULL DEFAULT '',
    -- Programs of other languages may have an older SQLite, without unixepoch('subsec').
    requested_time BIGINT NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    state VARCHAR(20) NOT NULL DEFAULT 'REQUESTED',
    execution_id BIGINT,
    answer VARCHAR(500) NOT NULL DEFAULT '',
    ended_time BIGINT NOT NULL DEFAULT -1
);

CREATE INDEX IF NOT EXISTS QRTZ_REQUEST_OPEN ON QRTZ_REQUEST (application, id) WHERE state = 'REQUESTED';
CREATE INDEX IF NOT EXISTS QRTZ_REQUEST_ENDED ON QRTZ_REQUEST (application, ended_time) WHERE state <> 'REQUESTED';

CREATE VIEW IF NOT EXISTS qrtz_claimed AS
SELECT r.id AS execution_id, r.application, e.name AS schedule, j.job_class AS job, r.state, r.node,
       COALESCE(n.host_name, '') AS host_name,
       strftime('%Y-%m-%d %H:%M:%f', r.scheduled_time / 1000.0, 'unixepoch') AS scheduled_time,
       strftime('%Y-%m-%d %H:%M:%f', r.claimed_time / 1000.0, 'unixepoch') AS claimed_since,
       CASE WHEN r.started_time >= 0
            THEN strftime('%Y-%m-%d %H:%M:%f', r.started_time / 1000.0, 'unixepoch') END AS started_since,
       r.attempt
  FROM QRTZ_RUN r
  LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id
  LEFT JOIN QRTZ_JOB j ON j.id = e.pid
  LEFT JOIN QRTZ_NODE n ON n.uuid = r.node
 WHERE r.state IN ('CLAIMED', 'RUNNING');

CREATE VIEW IF NOT EXISTS qrtz_ledger AS
SELECT r.id AS execution_id, r.application, e.name AS schedule, r.generation, r.origin,
       strftime('%Y-%m-%d %H:%M:%f', r.scheduled_time / 1000.0, 'unixepoch') AS scheduled_time,
       CASE WHEN r.until_time >= 0
            THEN strftime('%Y-%m-%d %H:%M:%f', r.until_time / 1000.0, 'unixepoch') END AS until_time,
       r.occurrences, r.attempt, r.state, r.reason, r.node,
       CASE WHEN r.started_time >= 0
            THEN strftime('%Y-%m-%d %H:%M:%f', r.started_time / 1000.0, 'unixepoch') END AS started,
       CASE WHEN r.finished_time >= 0
            THEN strftime('%Y-%m-%d %H:%M:%f', r.finished_time / 1000.0, 'unixepoch') END AS finished,
       r.error
  FROM QRTZ_RUN r
  LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id
 WHERE r.state NOT IN ('PENDING', 'CLAIMED', 'RUNNING');

-- Executions as other programs may read them: these columns stay. An enqueued one has no schedule.
CREATE VIEW IF NOT EXISTS qrtz_executions AS
SELECT r.id AS execution_id, r.application, j.job_class AS job,
       CASE WHEN e.job_type = 'QUEUE' THEN NULL ELSE e.name END AS schedule,
       r.state, r.reason, r.attempt, r.unique_key, r.group_key, r.lane, r.tags, r.headers,
       CASE WHEN r.scheduled_time >= 0
            THEN strftime('%Y-%m-%d %H:%M:%f', r.scheduled_time / 1000.0, 'unixepoch') END AS scheduled_time,
       CASE WHEN r.due_time >= 0
            THEN strftime('%Y-%m-%d %H:%M:%f', r.due_time / 1000.0, 'unixepoch') END AS due_time,
       CASE WHEN r.started_time >= 0
            THEN strftime('%Y-%m-%d %H:%M:%f', r.started_time / 1000.0, 'unixepoch') END AS started_time,
       CASE WHEN r.finished_time >= 0
            THEN strftime('%Y-%m-%d %H:%M:%f', r.finished_time / 1000.0, 'unixepoch') END AS finished_time,
       r.node, r.payload, r.result, r.error
  FROM QRTZ_RUN r
  LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id
  LEFT JOIN QRTZ_JOB j ON j.id = e.pid;

-- Which live node has a handler for which job, and whether it claims.
CREATE VIEW IF NOT EXISTS qrtz_handlers AS
SELECT n.application, n.uuid AS node, j.id AS job_id, j.job_class AS job,
       CASE WHEN n.state = 'Y' THEN 1 ELSE 0 END AS claims
  FROM QRTZ_NODE n
  JOIN QRTZ_JOB j ON j.application = n.application AND INSTR(n.jobs, '"' || j.job_class || '"') > 0
 WHERE n.ended_time = -1;

-- What should have begun a minute ago: schedules, and executions that wait. held_by says what is paused.
CREATE VIEW IF NOT EXISTS qrtz_late AS
SELECT 'schedule' AS kind, e.id, e.application, e.name AS schedule, j.job_class AS job,
       CASE WHEN e.next_fire_time >= 0
            THEN strftime('%Y-%m-%d %H:%M:%f', e.next_fire_time / 1000.0, 'unixepoch') END AS due,
       (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - e.next_fire_time) / 1000 AS late_seconds,
       (SELECT COUNT(*) FROM qrtz_handlers h WHERE h.job_id = j.id AND h.claims = 1) AS nodes,
       CASE WHEN (SELECT a.state FROM QRTZ_APP a WHERE a.application = e.application) <> 'Y' THEN 'application paused'
            WHEN j.state <> 'EXECUTING' THEN 'job paused' ELSE '' END AS held_by
  FROM QRTZ_EXECUTE e
  LEFT JOIN QRTZ_JOB j ON j.id = e.pid
 WHERE e.state = 'EXECUTING' AND e.next_fire_time < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - 60000
UNION ALL
SELECT 'execution' AS kind, r.id, r.application, e.name AS schedule, j.job_class AS job,
       CASE WHEN r.due_time >= 0
            THEN strftime('%Y-%m-%d %H:%M:%f', r.due_time / 1000.0, 'unixepoch') END AS due,
       (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - r.due_time) / 1000 AS late_seconds,
       (SELECT COUNT(*) FROM qrtz_handlers h WHERE h.job_id = j.id AND h.claims = 1) AS nodes,
       CASE WHEN e.state = 'PAUSED' THEN 'schedule paused' ELSE CASE WHEN (SELECT a.state FROM QRTZ_APP a WHERE a.application = r.application) <> 'Y' THEN 'application paused'
            WHEN j.state <> 'EXECUTING' THEN 'job paused' ELSE '' END END AS held_by
  FROM QRTZ_RUN r
  LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id
  LEFT JOIN QRTZ_JOB j ON j.id = e.pid
 WHERE r.state = 'PENDING' AND r.due_time < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - 60000;

-- What failed, died with its node, or ran out of time.
CREATE VIEW IF NOT EXISTS qrtz_failed AS
SELECT r.id AS execution_id, r.application, e.name AS schedule, j.job_class AS job, r.attempt, r.state, r.reason,
       r.node, CASE WHEN r.started_time >= 0
            THEN strftime('%Y-%m-%d %H:%M:%f', r.started_time / 1000.0, 'unixepoch') END AS started,
       CASE WHEN r.finished_time >= 0
            THEN strftime('%Y-%m-%d %H:%M:%f', r.finished_time / 1000.0, 'unixepoch') END AS finished,
       CASE WHEN r.finished_time >= 0 THEN (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - r.finished_time) / 1000 END AS seconds_ago, r.error
  FROM QRTZ_RUN r
  LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id
  LEFT JOIN QRTZ_JOB j ON j.id = e.pid
 WHERE r.state IN ('FAILED', 'TIMED_OUT', 'ABANDONED');
