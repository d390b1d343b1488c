//! The faults of a simulation, and how often they strike; mixes of faults, each with the situations it is to
//! bring about.

use crate::domain::Millis;
use crate::testing::dice::Dice;

/// How often things go wrong, per million. What is 0 does not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Faults {
    /// Per store call: refused, given up on, its answer lost, or both lost.
    pub calls: Millis,
    /// Per store call: it takes up to three seconds, now and then before it holds any lock.
    pub slow: Millis,
    /// Per second: the database is away for all, up to a minute.
    pub outages: Millis,
    /// Per node and second: the database is away for this one node.
    pub cuts: Millis,
    /// Per node and second: killed, and started anew up to 90 s later.
    pub kills: Millis,
    /// Per node and second: stopped for up to 90 s, between any two steps; now and then with all its
    /// neighbours.
    pub stops: Millis,
    /// Per node and second: its machine is paused for up to 90 s and its boot clock with it, the wall clock
    /// is set when it goes on; now and then with all its neighbours.
    pub freezes: Millis,
    /// Per second: the database's clock is set, to be up to 900 ms wrong.
    pub clocks: Millis,
    /// Per second: a schedule is paused, or a paused one resumed.
    pub pauses: Millis,
    /// Per second: a schedule gets another trigger, or another payload.
    pub edits: Millis,
    /// Per second: somebody asks for an extra execution.
    pub orders: Millis,
    /// Per second: another program writes a request.
    pub requests: Millis,
    /// Per second: a server of one of two releases side by side starts, and syncs its schedules.
    pub releases: Millis,
    /// Per second: somebody has a schedule's occurrences run again, or ends that.
    pub reruns: Millis,
    /// Per second: somebody cancels an execution that has not ended.
    pub cancels: Millis,
    /// Per second: somebody skips a schedule's next occurrence.
    pub skips: Millis,
    /// Per second: somebody asks for another attempt.
    pub retries: Millis,
    /// Per second: a schedule is removed; with its next edit it is made again.
    pub removes: Millis,
    /// Per second: a transaction that began minutes ago commits another trigger, which lies wholly in the
    /// past.
    pub arrears: Millis,
    /// Per second: somebody writes PAUSED into a schedule's row, and nothing else.
    pub hands: Millis,
    /// Per second: somebody takes hold of a schedule's row, for up to a minute.
    pub holds: Millis,
    /// Per execution: its handler takes up to 40 s, so that pools fill up.
    pub long_jobs: Millis,
    /// Per execution: its handler wants to go on up to three seconds later.
    pub snoozes: Millis,
    /// Per execution: its handler completes in a transaction of its own, or means to.
    pub completes: Millis,
    /// Per execution: its handler stores how far it has come, again and again.
    pub checkpoints: Millis,
    /// Per second: the application or one of its nodes is switched off for some minutes, by hand.
    pub switches: Millis,
    /// Per second: a client pauses the application, a job or a node, or drains a node.
    pub levels: Millis,
    /// Per second: the database refuses all writes, for one to four minutes.
    pub refusals: Millis,
    /// Per node and second: asked to stop in order, and started anew up to 90 s later.
    pub leaves: Millis,
    /// Per start of a node: it never hears of the others, and takes all shards for its own.
    pub strangers: Millis,
    /// Per start of a node: it keeps the ledger for [`RETENTION`] only.
    pub forgets: Millis,
    /// Per schedule: its handler always fails.
    pub fails: Millis,
    /// Per schedule: it is expected to succeed within some seconds of each fire time. If any may be, there is
    /// a schedule that nobody can run, too.
    pub expects: Millis,
    /// Per simulation: thousands of one-shots, of the jobs that all nodes run, come due at once.
    pub crowds: Millis,
    /// Per member of the database and second: it falls behind, for up to four seconds. If it may, there are
    /// [`MEMBERS`] of them.
    pub lags: Millis,
    /// Per node and second: it goes on with another member.
    pub moves: Millis,
    /// Per second: a copy takes over that has all commits, after up to 15 s, with another clock.
    pub promotions: Millis,
    /// Per second: a copy takes over that lacks the last commits, those of up to four seconds.
    pub losses: Millis,
}

/// How many servers have the tables each, where one of them may fall behind.
pub(super) const MEMBERS: usize = 3;

/// The member of the database that a node or a client is connected to.
pub(super) fn any_member(dice: &mut Dice) -> usize {
    usize::try_from(dice.below(MEMBERS as Millis)).unwrap()
}

/// What forgetful nodes keep of the ledger: longer than a call may be late, far shorter than a simulation.
pub(super) const RETENTION: Millis = 300_000;

impl Faults {
    pub(super) const NONE: Self = Self {
        calls: 0,
        slow: 0,
        outages: 0,
        cuts: 0,
        kills: 0,
        stops: 0,
        freezes: 0,
        clocks: 0,
        pauses: 0,
        edits: 0,
        orders: 0,
        requests: 0,
        releases: 0,
        reruns: 0,
        cancels: 0,
        skips: 0,
        retries: 0,
        removes: 0,
        arrears: 0,
        hands: 0,
        holds: 0,
        long_jobs: 0,
        snoozes: 0,
        completes: 0,
        checkpoints: 0,
        switches: 0,
        levels: 0,
        refusals: 0,
        leaves: 0,
        strangers: 0,
        forgets: 0,
        fails: 0,
        expects: 0,
        crowds: 0,
        lags: 0,
        moves: 0,
        promotions: 0,
        losses: 0,
    };

    pub(super) const MANY: Self = Self {
        calls: 50_000,
        slow: 20_000,
        outages: 1_500,
        cuts: 3_000,
        kills: 4_000,
        stops: 4_000,
        freezes: 2_000,
        clocks: 6_000,
        pauses: 20_000,
        edits: 20_000,
        orders: 50_000,
        requests: 0,
        releases: 0,
        reruns: 0,
        cancels: 30_000,
        skips: 30_000,
        retries: 30_000,
        removes: 5_000,
        arrears: 5_000,
        hands: 5_000,
        holds: 10_000,
        long_jobs: 20_000,
        snoozes: 50_000,
        completes: 200_000,
        checkpoints: 200_000,
        switches: 2_000,
        levels: 4_000,
        refusals: 1_000,
        leaves: 3_000,
        strangers: 300_000,
        forgets: 0,
        fails: 150_000,
        expects: 0,
        crowds: 0,
        lags: 0,
        moves: 0,
        promotions: 0,
        losses: 0,
    };

    /// Everything at once: little is done, and most of it twice.
    pub(super) const STORM: Self = Self {
        calls: 200_000,
        slow: 50_000,
        outages: 2_000,
        cuts: 20_000,
        kills: 2_000,
        stops: 10_000,
        freezes: 4_000,
        clocks: 6_000,
        pauses: 200_000,
        edits: 100_000,
        orders: 100_000,
        requests: 0,
        releases: 0,
        reruns: 0,
        cancels: 100_000,
        skips: 100_000,
        retries: 100_000,
        removes: 20_000,
        arrears: 5_000,
        hands: 200_000,
        holds: 30_000,
        long_jobs: 200_000,
        snoozes: 100_000,
        completes: 300_000,
        checkpoints: 300_000,
        switches: 2_000,
        levels: 4_000,
        refusals: 1_000,
        leaves: 2_000,
        strangers: 300_000,
        forgets: 0,
        fails: 150_000,
        expects: 0,
        crowds: 0,
        lags: 0,
        moves: 0,
        promotions: 0,
        losses: 0,
    };

    /// Pools are full and calls slow: claims and repairs meet.
    pub(super) const STARVED: Self = Self {
        slow: 300_000,
        pauses: 300_000,
        edits: 100_000,
        hands: 150_000,
        long_jobs: 250_000,
        strangers: 300_000,
        completes: 100_000,
        ..Self::NONE
    };

    /// The same, and nodes die or wake up late: several others mean to take back the same executions.
    pub(super) const DYING: Self =
        Self { slow: 900_000, kills: 4_000, stops: 12_000, long_jobs: 500_000, ..Self::STARVED };

    /// Handlers run out of time, and some of their nodes die before they return.
    pub(super) const OVERDUE: Self =
        Self { kills: 4_000, long_jobs: 200_000, completes: 100_000, ..Self::NONE };

    /// Nodes wake up just when others believe them dead.
    pub(super) const FROZEN: Self = Self { stops: 12_000, slow: 900_000, completes: 100_000, ..Self::NONE };

    /// Pools are full, calls slow, and triggers change all the while: edits and repairs meet.
    pub(super) const EDITED: Self =
        Self { slow: 300_000, edits: 300_000, long_jobs: 400_000, completes: 100_000, ..Self::NONE };

    /// Schedules are removed and made again, while much is handed back, fails, or dies with its node.
    pub(super) const REMOVED: Self = Self {
        removes: 100_000,
        edits: 100_000,
        kills: 4_000,
        leaves: 6_000,
        long_jobs: 100_000,
        completes: 100_000,
        ..Self::NONE
    };

    /// Nothing goes wrong but that the application and its nodes are switched off now and then.
    pub(super) const SWITCHED: Self = Self { switches: 30_000, completes: 100_000, ..Self::NONE };

    /// Nothing goes wrong but that the application, its jobs and its nodes are paused and drained, while
    /// pools are full.
    pub(super) const LEVELLED: Self =
        Self { levels: 40_000, long_jobs: 100_000, completes: 100_000, ..Self::NONE };

    /// More comes due at once than one poll can bring in the time that a call may take.
    pub(super) const CROWDED: Self = Self { crowds: 1_000_000, completes: 100_000, ..Self::NONE };

    /// Nodes stop in order while their pools are full.
    pub(super) const LEAVING: Self =
        Self { leaves: 12_000, long_jobs: 250_000, completes: 100_000, ..Self::NONE };

    /// Schedules get one generation after the other, and nodes that die leave attempts of all ages.
    pub(super) const FORGETFUL: Self =
        Self { edits: 300_000, arrears: 0, removes: 0, kills: 6_000, forgets: 700_000, ..Self::MANY };

    /// Handlers fail and nodes die: schedules pause themselves, and are resumed.
    pub(super) const FAILING: Self = Self {
        calls: 20_000,
        kills: 8_000,
        long_jobs: 200_000,
        fails: 300_000,
        completes: 100_000,
        ..Self::NONE
    };

    /// Handlers complete in transactions of their own, and store checkpoints; the answers are lost, and nodes
    /// die meanwhile.
    pub(super) const COMPLETING: Self = Self {
        calls: 100_000,
        slow: 50_000,
        kills: 12_000,
        stops: 4_000,
        snoozes: 100_000,
        completes: 500_000,
        checkpoints: 500_000,
        ..Self::NONE
    };

    /// Other programs write requests, and nodes that carry them out are killed or lose their answers.
    pub(super) const WRITTEN: Self = Self {
        requests: 700_000,
        completes: 100_000,
        calls: 100_000,
        slow: 50_000,
        kills: 12_000,
        stops: 4_000,
        strangers: 300_000,
        ..Self::NONE
    };

    /// Servers of two releases start again and again, on members that are behind, while nodes die.
    pub(super) const RELEASED: Self = Self {
        releases: 700_000,
        completes: 100_000,
        kills: 4_000,
        calls: 20_000,
        lags: 500_000,
        moves: 100_000,
        ..Self::NONE
    };

    /// Much fails, is skipped, dies with its node or is withdrawn, and somebody has it run again.
    pub(super) const RERUN: Self = Self {
        reruns: 150_000,
        calls: 20_000,
        kills: 4_000,
        pauses: 20_000,
        edits: 20_000,
        retries: 30_000,
        orders: 20_000,
        fails: 100_000,
        long_jobs: 20_000,
        completes: 100_000,
        ..Self::NONE
    };

    /// Much is expected, and fails, is late, paused or skipped, or dies with its node.
    pub(super) const EXPECTED: Self = Self {
        expects: 700_000,
        calls: 20_000,
        slow: 300_000,
        kills: 4_000,
        stops: 8_000,
        pauses: 20_000,
        hands: 5_000,
        edits: 10_000,
        skips: 30_000,
        orders: 20_000,
        levels: 4_000,
        fails: 200_000,
        long_jobs: 100_000,
        completes: 100_000,
        ..Self::NONE
    };

    /// Nothing goes wrong but that edits are committed late, and now and then a call fails.
    pub(super) const BELATED: Self =
        Self { arrears: 20_000, calls: 20_000, completes: 100_000, ..Self::NONE };

    /// Members fall behind, and nodes go from one to another.
    pub(super) const LAGGING: Self = Self { lags: 200_000, moves: 100_000, ..Self::MANY };

    /// The same, and little else goes wrong: much is done.
    pub(super) const BEHIND: Self = Self {
        calls: 20_000,
        orders: 200_000,
        cancels: 50_000,
        retries: 100_000,
        long_jobs: 50_000,
        snoozes: 20_000,
        strangers: 300_000,
        lags: 200_000,
        moves: 200_000,
        completes: 100_000,
        ..Self::NONE
    };

    /// Nothing goes wrong but that members are far behind: some have no node for a while.
    pub(super) const FAR_BEHIND: Self =
        Self { lags: 900_000, moves: 300_000, completes: 100_000, ..Self::NONE };

    /// The same while answers are lost, and what became of claims is asked of members that are far behind.
    pub(super) const ASKING: Self = Self { calls: 200_000, ..Self::FAR_BEHIND };

    /// The same while nodes drain, and go from one member to another all the time.
    pub(super) const DRAINING: Self =
        Self { levels: 100_000, long_jobs: 100_000, lags: 500_000, moves: 500_000, ..Self::ASKING };

    /// Members are far behind while much is paused.
    pub(super) const PAUSED: Self = Self { levels: 300_000, long_jobs: 100_000, ..Self::FAR_BEHIND };

    /// Members are far behind while much is asked to end.
    pub(super) const CANCELLED: Self =
        Self { cancels: 1_000_000, orders: 500_000, long_jobs: 300_000, ..Self::FAR_BEHIND };

    /// Members are far behind while much is cancelled, tried again and enqueued with a key.
    pub(super) const RETRIED: Self =
        Self { cancels: 1_000_000, retries: 1_000_000, orders: 1_000_000, ..Self::FAR_BEHIND };

    /// Members are far behind while much is tried again that retention removes.
    pub(super) const AGED: Self = Self { cancels: 500_000, forgets: 1_000_000, ..Self::RETRIED };

    /// The mixes in which something goes wrong.
    pub(super) const ALL: [Self; 29] = [
        Self::MANY,
        Self::STORM,
        Self::STARVED,
        Self::DYING,
        Self::OVERDUE,
        Self::FROZEN,
        Self::EDITED,
        Self::REMOVED,
        Self::SWITCHED,
        Self::LEVELLED,
        Self::CROWDED,
        Self::LEAVING,
        Self::FORGETFUL,
        Self::FAILING,
        Self::COMPLETING,
        Self::BELATED,
        Self::LAGGING,
        Self::BEHIND,
        Self::FAR_BEHIND,
        Self::ASKING,
        Self::DRAINING,
        Self::PAUSED,
        Self::CANCELLED,
        Self::RETRIED,
        Self::AGED,
        Self::WRITTEN,
        Self::RELEASED,
        Self::RERUN,
        Self::EXPECTED,
    ];

    /// Each rate, with its name on a scenario's line.
    pub(super) fn each(&mut self) -> [(&'static str, &mut Millis); 38] {
        [
            ("calls", &mut self.calls),
            ("slow", &mut self.slow),
            ("outages", &mut self.outages),
            ("cuts", &mut self.cuts),
            ("kills", &mut self.kills),
            ("stops", &mut self.stops),
            ("freezes", &mut self.freezes),
            ("clocks", &mut self.clocks),
            ("pauses", &mut self.pauses),
            ("edits", &mut self.edits),
            ("orders", &mut self.orders),
            ("requests", &mut self.requests),
            ("releases", &mut self.releases),
            ("reruns", &mut self.reruns),
            ("cancels", &mut self.cancels),
            ("skips", &mut self.skips),
            ("retries", &mut self.retries),
            ("removes", &mut self.removes),
            ("arrears", &mut self.arrears),
            ("hands", &mut self.hands),
            ("holds", &mut self.holds),
            ("long_jobs", &mut self.long_jobs),
            ("snoozes", &mut self.snoozes),
            ("completes", &mut self.completes),
            ("checkpoints", &mut self.checkpoints),
            ("switches", &mut self.switches),
            ("levels", &mut self.levels),
            ("refusals", &mut self.refusals),
            ("leaves", &mut self.leaves),
            ("strangers", &mut self.strangers),
            ("forgets", &mut self.forgets),
            ("fails", &mut self.fails),
            ("expects", &mut self.expects),
            ("crowds", &mut self.crowds),
            ("lags", &mut self.lags),
            ("moves", &mut self.moves),
            ("promotions", &mut self.promotions),
            ("losses", &mut self.losses),
        ]
    }
}
