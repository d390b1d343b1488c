//! Just enough of the two protocols to see in what a client sends that it commits.

use std::collections::HashSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Postgres,
    Mariadb,
}

/// A prepared statement with this in it commits by itself outside a transaction: it is a claim.
const CLAIM: &str = "INSERT INTO QRTZ_RUN";
const COMMIT: &[u8] = b"COMMIT";

/// Watches one connection.
pub struct Watch {
    protocol: Protocol,
    buffer: Vec<u8>,
    /// PostgreSQL: the startup message has gone by.
    started: bool,
    in_transaction: bool,
    /// Prepared statements that commit when they are executed, by name or number.
    committing: HashSet<Vec<u8>>,
    /// MariaDB: the server's next answer numbers a prepared COMMIT.
    numbering: bool,
}

impl Watch {
    pub fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            buffer: Vec::new(),
            started: false,
            in_transaction: false,
            committing: HashSet::new(),
            numbering: false,
        }
    }

    /// Takes in what the client sends; true if it commits by that.
    pub fn client(&mut self, bytes: &[u8]) -> bool {
        self.buffer.extend_from_slice(bytes);
        let mut commits = false;
        while let Some(length) = self.frame() {
            let frame: Vec<u8> = self.buffer.drain(..length).collect();
            commits |= match self.protocol {
                Protocol::Postgres => self.postgres(&frame),
                Protocol::Mariadb => self.mariadb(&frame),
            };
        }
        commits
    }

    /// Takes in what the server answers.
    pub fn server(&mut self, bytes: &[u8]) {
        if self.numbering && bytes.len() >= 9 && bytes[4] == 0 {
            self.committing.insert(bytes[5..9].to_vec());
            self.numbering = false;
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

    fn postgres(&mut self, frame: &[u8]) -> bool {
        if !self.started {
            // Anything else asks for encryption first.
            self.started = frame[4..8] == [0, 3, 0, 0];
            return false;
        }
        let mut texts = frame[5..].split(|byte| *byte == 0);
        let mut text = || texts.next().unwrap_or_default();
        match frame[0] {
            b'Q' => {
                let query = text();
                self.in_transaction = query == b"BEGIN" || self.in_transaction && !ends(query);
                query == COMMIT
            }
            b'P' => {
                let (name, query) = (text().to_vec(), String::from_utf8_lossy(text()));
                if query.contains(CLAIM) {
                    self.committing.insert(name);
                } else {
                    self.committing.remove(&name);
                }
                false
            }
            b'B' => {
                let (_portal, statement) = (text(), text());
                !self.in_transaction && self.committing.contains(statement)
            }
            _ => false,
        }
    }

    fn mariadb(&mut self, frame: &[u8]) -> bool {
        const QUERY: u8 = 3;
        const PREPARE: u8 = 0x16;
        const EXECUTE: u8 = 0x17;
        let is_command = frame[3] == 0;
        match frame.get(4) {
            Some(&QUERY) if is_command => frame[5..] == *COMMIT,
            Some(&PREPARE) if is_command => {
                self.numbering = frame[5..] == *COMMIT;
                false
            }
            Some(&EXECUTE) if is_command => frame.get(5..9).is_some_and(|id| self.committing.contains(id)),
            _ => false,
        }
    }
}

fn ends(query: &[u8]) -> bool {
    query == COMMIT || query == b"ROLLBACK"
}

fn big(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |length, byte| (length << 8) + usize::from(*byte))
}
