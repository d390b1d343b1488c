//! Completions and man pages, as clap makes them.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;

use crate::args::RawArgs;
use crate::failure::{Failure, Result};

const NAME: &str = "firetime";

pub(crate) fn completions(shell: clap_complete::Shell, out: &mut dyn Write) -> Result {
    // Whoever reads this may go away early, which clap's generator does not expect.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut RawArgs::command(), NAME, &mut text);
    Ok(out.write_all(&text)?)
}

/// A page for the program, and one for each command and verb.
pub(crate) fn man(folder: &Path, out: &mut dyn Write) -> Result {
    let failed = |error| Failure::file("writing man pages to", folder, &error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(RawArgs::command(), folder).map_err(failed)?;
    writeln!(
        out,
        "wrote the man pages to {}: try `man -l {}`",
        folder.display(),
        folder.join("firetime.1").display()
    )?;
    Ok(())
}
