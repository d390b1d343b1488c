//! `console`: its options as clap reads them.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use firetime::console::Role;

/// How the console is served.
#[derive(Debug, Args)]
pub(super) struct RawConsole {
    /// The address and port to listen on; without --users or --trust-header of this machine alone
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8088")]
    pub(super) listen: SocketAddr,
    /// Who may log in, and which programs may ask: a file with a line `user NAME ROLE HASH` or `token NAME
    /// ROLE HASH` for each. It is read again when it changes
    #[arg(long, value_name = "FILE")]
    pub(super) users: Option<PathBuf>,
    /// The header in which a proxy says who has logged in there, such as X-Forwarded-User
    #[arg(long, value_name = "NAME")]
    pub(super) trust_header: Option<String>,
    /// The header in which that proxy says the user's role
    #[arg(long, value_name = "NAME", requires = "trust_header")]
    pub(super) role_header: Option<String>,
    /// The role of those whom the proxy names without one
    #[arg(long, value_name = "ROLE", default_value = "viewer", requires = "trust_header")]
    pub(super) role: Role,
    /// The address of a proxy that may say who asks, from where, and whether by HTTPS; may be repeated;
    /// default: this machine
    #[arg(long, value_name = "ADDRESS")]
    pub(super) proxy: Vec<IpAddr>,
    /// Browsers reach it by HTTPS alone: they send its cookies by nothing else
    #[arg(long)]
    pub(super) https: bool,
    /// A name under which it may be reached, such as that of a proxy; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(super) host: Vec<String>,
    /// Hides the payloads, results and logs of this job from everybody; may be repeated
    #[arg(long, value_name = "JOB")]
    pub(super) hide_payloads: Vec<String>,
    /// Hides a field in the payloads and results of a job, and the lines of its logs that have it, from
    /// everybody; may be repeated
    #[arg(long, value_name = "JOB=FIELD", value_parser = job_and_field)]
    pub(super) mask: Vec<(String, String)>,
    /// Shows only, and refuses every change
    #[arg(long)]
    pub(super) read_only: bool,
    /// Who changes something, for the audit, where no login knows; default: the user that USER or LOGNAME
    /// names, else console
    #[arg(long, value_name = "NAME")]
    pub(super) actor: Option<String>,
}

fn job_and_field(text: &str) -> Result<(String, String), String> {
    match text.rsplit_once('=') {
        Some((job, field)) if !job.is_empty() && !field.is_empty() => Ok((job.to_owned(), field.to_owned())),
        _ => Err("a job and the name of a field: JOB=FIELD".to_owned()),
    }
}

/// What else there is to do for a console.
#[derive(Debug, Subcommand)]
pub(super) enum RawConsoleVerb {
    /// Makes the hash of a password for the users file
    ///
    /// Reads the password from the terminal, twice and without showing it, or else the first line of standard
    /// input, and writes its hash (Argon2id).
    HashPassword,
    /// Makes a token with which a program may ask the console, and its line for the users file
    ///
    /// Writes two lines: the token, which is shown only once, and the line.
    NewToken {
        /// The program's name, for the audit
        name: String,
        /// What it may do: viewer, operator or admin
        #[arg(long, value_name = "ROLE", default_value = "viewer")]
        role: Role,
    },
}
