import java.io.InputStream;
import java.io.PrintStream;
import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.time.Instant;
import java.util.Date;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobExecutionContext;
import org.quartz.Scheduler;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;
import org.quartz.impl.StdSchedulerFactory;

/** Quartz, clustered on its JDBC job store, as a peer: see ../run.py for what a peer's program is asked and says. */
public final class QuartzPeer {
    private static final int THREADS = 20;
    private static final Queue<String> RUNS = new ConcurrentLinkedQueue<>();
    private static final AtomicInteger COUNT = new AtomicInteger();

    /** The job of all schedules. */
    public static final class Tick implements Job {
        @Override
        public void execute(JobExecutionContext context) {
            Instant now = Instant.now();
            long started = now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
            long planned = context.getScheduledFireTime().getTime();
            RUNS.add("run " + context.getTrigger().getKey().getName() + " " + planned + " " + started);
            COUNT.incrementAndGet();
        }
    }

    private QuartzPeer() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 6 && arguments[0].equals("load")) {
            createTables(arguments[1]);
            load(scheduler(arguments[1], arguments[2]), Integer.parseInt(arguments[3]),
                    Long.parseLong(arguments[4]), Integer.parseInt(arguments[5]));
        } else if (arguments.length == 3 && arguments[0].equals("node")) {
            node(scheduler(arguments[1], arguments[2]));
        } else {
            throw new IllegalArgumentException("load URL VARIANT SCHEDULES FIRST_MS SECONDS | node URL VARIANT");
        }
    }

    private static Scheduler scheduler(String url, String variant) throws Exception {
        Properties p = new Properties();
        p.setProperty("org.quartz.scheduler.instanceName", "peer");
        p.setProperty("org.quartz.scheduler.instanceId", "AUTO");
        p.setProperty("org.quartz.scheduler.skipUpdateCheck", "true");
        p.setProperty("org.quartz.threadPool.threadCount", Integer.toString(THREADS));
        p.setProperty("org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX");
        p.setProperty("org.quartz.jobStore.driverDelegateClass",
                "org.quartz.impl.jdbcjobstore.PostgreSQLDelegate");
        p.setProperty("org.quartz.jobStore.isClustered", "true");
        p.setProperty("org.quartz.jobStore.dataSource", "peer");
        p.setProperty("org.quartz.dataSource.peer.provider", "hikaricp");
        p.setProperty("org.quartz.dataSource.peer.driver", "org.postgresql.Driver");
        p.setProperty("org.quartz.dataSource.peer.URL", jdbc(url));
        p.setProperty("org.quartz.dataSource.peer.maxConnections", Integer.toString(THREADS + 3));
        if (variant.equals("batch")) {
            p.setProperty("org.quartz.scheduler.batchTriggerAcquisitionMaxCount", Integer.toString(THREADS));
            // Quartz asks for it as soon as a batch holds more than one. The fire-ahead window stays 0:
            // what it lets into a batch fires early.
            p.setProperty("org.quartz.jobStore.acquireTriggersWithinLock", "true");
        } else if (!variant.equals("defaults")) {
            throw new IllegalArgumentException("no variant " + variant);
        }
        return new StdSchedulerFactory(p).getScheduler();
    }

    private static String jdbc(String url) {
        URI uri = URI.create(url);
        String[] user = uri.getUserInfo().split(":", 2);
        return "jdbc:postgresql://" + uri.getHost() + ":" + uri.getPort() + uri.getPath()
                + "?user=" + user[0] + "&password=" + user[1];
    }

    private static void createTables(String url) throws Exception {
        try (InputStream in = Job.class.getResourceAsStream("impl/jdbcjobstore/tables_postgres.sql");
                Connection connection = DriverManager.getConnection(jdbc(url));
                Statement statement = connection.createStatement()) {
            statement.execute(new String(in.readAllBytes(), "UTF-8"));
        }
    }

    /** Seconds 0: each once, all at {@code first}; else each every second, the phases spread over the second. */
    private static void load(Scheduler scheduler, int schedules, long first, int seconds) throws Exception {
        JobDetail job = JobBuilder.newJob(Tick.class).withIdentity("tick").storeDurably().build();
        Set<Trigger> triggers = new HashSet<>();
        for (int i = 0; i < schedules; i++) {
            long start = seconds == 0 ? first : first + 1_000L * i / schedules;
            // What is over 60 s late must run as well, under the fire time it was planned for.
            SimpleScheduleBuilder schedule = SimpleScheduleBuilder.repeatSecondlyForTotalCount(Math.max(seconds, 1))
                    .withMisfireHandlingInstructionIgnoreMisfires();
            triggers.add(TriggerBuilder.newTrigger().withIdentity(Integer.toString(i)).forJob(job)
                    .startAt(new Date(start)).withSchedule(schedule).build());
        }
        scheduler.scheduleJobs(Map.of(job, triggers), false);
        scheduler.shutdown();
    }

    private static void node(Scheduler scheduler) throws Exception {
        scheduler.start();
        PrintStream out = System.out;
        out.println("ready");
        out.flush();
        Thread counts = new Thread(QuartzPeer::sayCounts);
        counts.setDaemon(true);
        counts.start();
        System.in.readAllBytes();
        scheduler.shutdown(true);
        counts.interrupt();
        counts.join();
        out.print(String.join("\n", RUNS) + "\n");
        out.flush();
    }

    private static void sayCounts() {
        int said = 0;
        try {
            while (true) {
                int count = COUNT.get();
                if (count != said) {
                    System.out.println("ran " + count);
                    said = count;
                }
                Thread.sleep(5);
            }
        } catch (InterruptedException end) {
            // The node ends: the runs say the rest.
        }
    }
}
