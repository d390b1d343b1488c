//! Just enough of the two protocols to see in what a client sends that it commits.

use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Postgres,
    Mariadb,
}

/// What a transaction did, as far as anybody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    Claim,
    Other,
}

/// A statement that is a claim; outside a transaction it commits by itself, as any change does.
const CLAIM: &str = "INSERT INTO QRTZ_RUN";
const COMMIT: &[u8] = b"COMMIT";

/// What a prepared statement is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prepared {
    Begin,
    /// A claim that begins its transaction.
    BeginAndClaim,
    Claim,
    /// Of executions: mostly outcomes.
    Change,
    Commit,
    Rollback,
}

fn prepared(text: &[u8]) -> Option<Prepared> {
    match text {
        b"START TRANSACTION" => return Some(Prepared::Begin),
        COMMIT => return Some(Prepared::Commit),
        b"ROLLBACK" => return Some(Prepared::Rollback),
        _ => {}
    }
    let text = String::from_utf8_lossy(text);
    if text.starts_with("BEGIN NOT ATOMIC START TRANSACTION") && text.contains(CLAIM) {
        Some(Prepared::BeginAndClaim)
    } else if text.contains(CLAIM) {
        Some(Prepared::Claim)
    } else {
        (text.starts_with("UPDATE ") && text.contains("QRTZ_RUN")).then_some(Prepared::Change)
    }
}

/// Watches one connection.
pub struct Watch {
    protocol: Protocol,
    buffer: Vec<u8>,
    /// PostgreSQL: the startup message has gone by.
    started: bool,
    in_transaction: bool,
    /// The transaction under way has claimed.
    claims: bool,
    /// Prepared statements of interest, by name or number.
    prepared: HashMap<Vec<u8>, Prepared>,
    /// MariaDB: what the server's next answer numbers.
    numbering: Option<Prepared>,
}

impl Watch {
    pub fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            buffer: Vec::new(),
            started: false,
            in_transaction: false,
            claims: false,
            prepared: HashMap::new(),
            numbering: None,
        }
    }

    /// Takes in what the client sends; gives what it commits by that.
    pub fn client(&mut self, bytes: &[u8]) -> Option<Commit> {
        self.buffer.extend_from_slice(bytes);
        let mut commits = None;
        while let Some(length) = self.frame() {
            let frame: Vec<u8> = self.buffer.drain(..length).collect();
            let found = match self.protocol {
                Protocol::Postgres => self.postgres(&frame),
                Protocol::Mariadb => self.mariadb(&frame),
            };
            commits = found.or(commits);
        }
        commits
    }

    /// Takes in what the server answers.
    pub fn server(&mut self, bytes: &[u8]) {
        if bytes.len() >= 9
            && bytes[4] == 0
            && let Some(what) = self.numbering.take()
        {
            self.prepared.insert(bytes[5..9].to_vec(), what);
        }
    }

    fn commit(&mut self) -> Option<Commit> {
        self.in_transaction = false;
        Some(if std::mem::take(&mut self.claims) { Commit::Claim } else { Commit::Other })
    }

    fn runs(&mut self, statement: &[u8]) -> Option<Commit> {
        match self.prepared.get(statement)? {
            Prepared::Commit => self.commit(),
            Prepared::Claim if !self.in_transaction => Some(Commit::Claim),
            Prepared::Change if !self.in_transaction => Some(Commit::Other),
            Prepared::Claim => {
                self.claims = true;
                None
            }
            Prepared::Begin => {
                (self.in_transaction, self.claims) = (true, false);
                None
            }
            Prepared::BeginAndClaim => {
                (self.in_transaction, self.claims) = (true, true);
                None
            }
            Prepared::Rollback => {
                self.in_transaction = false;
                None
            }
            Prepared::Change => None,
        }
    }

    /// The length of the first frame in the buffer, if it is whole.
    fn frame(&self) -> Option<usize> {
        let head = self.buffer.get(..5)?;
        let length = match self.protocol {
            Protocol::Postgres if !self.started => big(&head[..4]),
            Protocol::Postgres => 1 + big(&head[1..]),
            Protocol::Mariadb => {
                4 + usize::from(head[0]) + (usize::from(head[1]) << 8) + (usize::from(head[2]) << 16)
            }
        };
        (self.buffer.len() >= length).then_some(length)
    }

    fn postgres(&mut self, frame: &[u8]) -> Option<Commit> {
        if !self.started {
            // Anything else asks for encryption first.
            self.started = frame[4..8] == [0, 3, 0, 0];
            return None;
        }
        let mut texts = frame[5..].split(|byte| *byte == 0);
        let mut text = || texts.next().unwrap_or_default();
        match frame[0] {
            b'Q' => {
                let query = text();
                self.claims &= query != b"BEGIN";
                self.in_transaction = query == b"BEGIN" || self.in_transaction && !ends(query);
                if query == COMMIT { self.commit() } else { None }
            }
            b'P' => {
                let (name, query) = (text(), text());
                self.prepared.remove(name);
                self.prepared.extend(prepared(query).map(|what| (name.to_vec(), what)));
                None
            }
            b'B' => {
                let (_portal, statement) = (text(), text());
                self.runs(statement)
            }
            _ => None,
        }
    }

    fn mariadb(&mut self, frame: &[u8]) -> Option<Commit> {
        const QUERY: u8 = 3;
        const PREPARE: u8 = 0x16;
        const EXECUTE: u8 = 0x17;
        let is_command = frame[3] == 0;
        match frame.get(4) {
            Some(&QUERY) if is_command && frame[5..] == *COMMIT => self.commit(),
            Some(&PREPARE) if is_command => {
                self.numbering = prepared(&frame[5..]);
                None
            }
            Some(&EXECUTE) if is_command => self.runs(frame.get(5..9)?),
            _ => None,
        }
    }
}

/// Takes notifications out of what PostgreSQL sends a client, if it is to be deaf.
#[derive(Default)]
pub struct Sieve {
    buffer: Vec<u8>,
    started: bool,
    /// How many it has taken out.
    pub taken: usize,
}

impl Sieve {
    /// The whole messages up to the end of these bytes, all or without notifications.
    pub fn pass(&mut self, bytes: &[u8], is_deaf: bool) -> Vec<u8> {
        const NOTIFICATION: u8 = b'A';
        // Whether it encrypts is answered by one byte.
        if !self.started && bytes.len() == 1 {
            return bytes.to_vec();
        }
        self.started = true;
        self.buffer.extend_from_slice(bytes);
        let (mut passed, mut at) = (Vec::with_capacity(bytes.len()), 0);
        while let Some(head) = self.buffer.get(at..at + 5) {
            let end = at + 1 + big(&head[1..]);
            let Some(frame) = self.buffer.get(at..end) else { break };
            if is_deaf && frame[0] == NOTIFICATION {
                self.taken += 1;
            } else {
                passed.extend_from_slice(frame);
            }
            at = end;
        }
        self.buffer.drain(..at);
        passed
    }
}

fn ends(query: &[u8]) -> bool {
    query == COMMIT || query == b"ROLLBACK"
}

fn big(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |length, byte| (length << 8) + usize::from(*byte))
}
