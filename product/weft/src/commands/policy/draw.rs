//! `weft policy draw`: a policy as a picture.

use anyhow::anyhow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_cli::output::{self, OutputTarget};
use weft_cli::policy_file::PolicyText;
use weft_policy::{CompileOptions, Source, draw, to_dot};
use weft_run::tenant_files::Beside;

/// Draw a policy as SVG: classes, nodes with their weights, limits, and the way of the packets to the link.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft policy draw policies/figure1.weft -o figure1.svg
  weft policy draw policies/figure1.weft --as dot | dot -Tpdf > figure1.pdf")]
pub(crate) struct Args {
    /// The policy.
    file: PathBuf,
    /// The file to write, in place of standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The form of the drawing.
    #[arg(long = "as", value_name = "FORM", default_value = "svg")]
    form: Form,
}

/// A form of a drawing.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Form {
    /// A picture as browsers and documents show it.
    Svg,
    /// Graphviz's language: the compiled form, with a leaf for each class.
    Dot,
}

impl Form {
    /// The end of the name of a file of another kind, which would not have what its name says.
    fn mistaken(self, path: &Path) -> Option<&str> {
        let own = match self {
            Self::Svg => "svg",
            Self::Dot => "dot",
        };
        let end = path.extension()?.to_str()?;
        let pictures = ["png", "pdf", "jpg", "jpeg", "gif", "webp", "ps", "eps", "svg", "dot"];
        (end != own && pictures.contains(&end.to_ascii_lowercase().as_str())).then_some(end)
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(other) = args.output.as_deref().and_then(|path| args.form.mistaken(path)) {
        anyhow::bail!(
            "a drawing is SVG or DOT, not {other}: `-o FILE.svg`, which browsers show and programs such as rsvg-convert turn into others"
        );
    }
    let target = OutputTarget::open(args.output.as_deref())?;
    let text = PolicyText::read(&args.file)?;
    let policy = text.load(&CompileOptions::default())?;
    let drawn = match args.form {
        Form::Svg => {
            draw(Source { name: &text.name, text: &text.text }, &Beside).map(|drawing| drawing.to_svg())
        }
        Form::Dot => Some(to_dot(&policy)),
    };
    let drawn = drawn.ok_or_else(|| anyhow!("{} cannot be drawn", text.name))?;
    match target {
        OutputTarget::None => output::print(&drawn)?,
        target => _ = target.write(&drawn)?,
    }
    Ok(ExitCode::SUCCESS)
}
