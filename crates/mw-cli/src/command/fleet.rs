//! `memwright fleet`: asks many nodes, and prints their answers.

use crate::args::{
    FleetArgs, FleetCommand, FleetDriftArgs, FleetFactsArgs, FleetFormat, FleetIncidentsArgs,
    FleetReportArgs, FleetRoomArgs, TimeArg, WayArgs,
};
use crate::config::Config;
use crate::output::{self, Readers, STANDARD_OUTPUT, without_interruption};
use crate::{Exit, Failure, live, secret_files, terminal};
use mw_fleet::{
    Credentials, FleetDrift, FleetIncidents, FleetReport, FleetRoom, MetricsServer, NodeAccess,
    NodeFacts, RoomQuery,
};
use mw_http::SecretFile;
use mw_render::html;
use std::io;
use std::path::Path;

/// Period of a report without `--since`.
const USUAL_SPAN_MS: u64 = 7 * 24 * 3_600_000;

pub(crate) fn run(args: &FleetArgs, config: &Config) -> Result<Exit, Failure> {
    match &args.command {
        FleetCommand::Room(args) => room(args),
        FleetCommand::Drift(args) => drift(args),
        FleetCommand::Incidents(args) => incidents(args),
        FleetCommand::Report(args) => report(args),
        FleetCommand::Facts(args) => facts(args, config),
    }
}

fn access(args: &WayArgs) -> NodeAccess<'_> {
    NodeAccess { via: &args.via, jobs: args.jobs as usize, timeout: args.timeout }
}

/// The nodes of a set.
fn nodes(set: &str, way: &WayArgs) -> Result<Vec<String>, Failure> {
    without_interruption(|| {
        let usage = |why: String| Failure::new(Exit::Usage, format!("--nodes {set}: {why}"));
        access(way).nodes(set).map_err(usage)
    })
}

fn room(args: &FleetRoomArgs) -> Result<Exit, Failure> {
    let chosen = args.nodes.as_deref().map(|set| nodes(set, &args.way)).transpose()?;
    let most = usize::try_from(args.ask).unwrap_or(usize::MAX);
    let query = RoomQuery {
        request: &args.request,
        access: access(&args.way),
        ask: (!args.by_metrics).then_some(most),
    };
    let room = match &args.prometheus {
        Some(_) if args.by_metrics && args.request.page.is_folio() => {
            let why = "--by-metrics: no metric has folios (leave it out, to ask the nodes)";
            return Err(Failure::new(Exit::Usage, why));
        }
        Some(url) => {
            let candidates = metrics_server(args, url)?.candidates(&args.request);
            let candidates = candidates.map_err(|why| Failure::new(Exit::CouldNotCheck, why))?;
            without_interruption(|| Ok(query.of_candidates(candidates, chosen)))?
        }
        None => without_interruption(|| Ok(query.of_nodes(&chosen.unwrap_or_default())))?,
    };
    print_room(args, &query, &room)?;
    Ok(if query.has_room(&room) { Exit::Fine } else { Exit::Findings })
}

fn metrics_server(args: &FleetRoomArgs, url: &str) -> Result<MetricsServer, Failure> {
    let file = |name: &String| SecretFile(name.clone());
    let token = args.token_file.as_ref().map(|name| Credentials::Token(file(name)));
    let credentials =
        token.or_else(|| args.basic_auth_file.as_ref().map(|name| Credentials::Basic(file(name))));
    let path = credentials.as_ref().and_then(|credentials| credentials.file().path().ok());
    if let Some(line) = path.and_then(|path| secret_files::exposure(&path)) {
        terminal::tell(format_args!("memwright: {line}"));
    }
    MetricsServer::new(url, credentials.as_ref(), args.ca_file.clone(), &args.label)
        .map_err(|why| Failure::new(Exit::Usage, why))
}

fn print_room(
    args: &FleetRoomArgs,
    query: &RoomQuery<'_>,
    room: &FleetRoom,
) -> Result<(), Failure> {
    match if args.json { FleetFormat::Json } else { args.format } {
        FleetFormat::Json => return super::print_json(room),
        FleetFormat::Text => terminal::print(&query.text(room)),
        FleetFormat::Nodeset => terminal::print(&(query.node_set(room) + "\n")),
    }
    Ok(())
}

fn drift(args: &FleetDriftArgs) -> Result<Exit, Failure> {
    let names = nodes(&args.nodes, &args.way)?;
    let drift = without_interruption(|| Ok(FleetDrift::ask(access(&args.way), &names)))?;
    if args.format.is_json() {
        super::print_json(&drift)?;
    } else {
        terminal::print(&drift.text());
    }
    Ok(match (drift.nodes, drift.is_uniform()) {
        (0, _) => Exit::CouldNotCheck,
        (_, true) => Exit::Fine,
        (_, false) => Exit::Findings,
    })
}

fn incidents(args: &FleetIncidentsArgs) -> Result<Exit, Failure> {
    let since = args.since.map(|moment| moment.unix_ms(mw_sys::unix_ms()));
    let names = nodes(&args.nodes, &args.way)?;
    let fleet = without_interruption(|| {
        Ok(FleetIncidents::ask(access(&args.way), &names, since, args.gap))
    })?;
    if args.format.is_json() {
        super::print_json(&fleet)?;
    } else {
        terminal::print(&fleet.text());
    }
    Ok(if fleet.nodes == 0 { Exit::CouldNotCheck } else { Exit::Fine })
}

fn report(args: &FleetReportArgs) -> Result<Exit, Failure> {
    let now = mw_sys::unix_ms();
    let since = TimeArg::since(args.since, now, USUAL_SPAN_MS);
    let names = nodes(&args.nodes, &args.way)?;
    let report = without_interruption(|| {
        Ok(FleetReport::ask(access(&args.way), &names, (since, now), args.gap))
    })?;
    let html =
        html::fleet(&report.page).map_err(|error| Failure::new(Exit::CouldNotCheck, error))?;
    write(&args.output, &html)?;
    if args.output != Path::new(STANDARD_OUTPUT) {
        terminal::tell(&report.page.verdict);
        terminal::tell(args.output.display());
    }
    Ok(if report.nodes == 0 { Exit::CouldNotCheck } else { Exit::Fine })
}

fn write(path: &Path, html: &str) -> Result<(), Failure> {
    if path == Path::new(STANDARD_OUTPUT) {
        terminal::check_output()?;
        terminal::print_page(html);
        return Ok(());
    }
    let failed = |error: &io::Error| Failure::of_output(path, error, "--output");
    output::write(path, Readers::Owner, &failed, |file| {
        file.write_all(html.as_bytes()).map_err(|error| failed(&error))
    })
}

fn facts(args: &FleetFactsArgs, config: &Config) -> Result<Exit, Failure> {
    let facts = match &args.root {
        Some(root) => NodeFacts::of_window(&super::tree::read(root, mw_collect::window)?),
        None => own_facts(config)?,
    };
    if args.format.is_json() {
        super::print_json(&facts)?;
    } else {
        terminal::print(&facts.text());
    }
    Ok(Exit::Fine)
}

/// Facts of this machine.
pub(super) fn own_facts(config: &Config) -> Result<NodeFacts, Failure> {
    let window = live::window()?;
    Ok(NodeFacts::of_this_machine(&window, &config.state_dir(None), &config.pool().socket()))
}
