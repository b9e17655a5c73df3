//! The answer in one line.

use mw_model::{
    Answer, Assessment, ConstraintEffect, ConstraintKind, FolioSupply, NodeAccount, PageSize,
    PoolGrowth, PoolRoom, Request, TimeEstimate, format_bytes, format_duration_ms,
};

/// Number of nodes that are named.
const MOST_NODES: usize = 4;

pub(super) fn line(assessment: &Assessment) -> String {
    let constraints = &assessment.constraints;
    let line = without_doubts(assessment);
    let doubt = constraints.iter().find(|doubt| doubt.effect == ConstraintEffect::MayRefuse);
    match doubt.filter(|_| assessment.answer() == Answer::Unknown) {
        Some(doubt) => {
            format!("unknown, because {}; otherwise {line}", super::constraint::doubt(doubt))
        }
        None => line,
    }
}

fn without_doubts(assessment: &Assessment) -> String {
    let Assessment { request, nodes, sources, .. } = assessment;
    let answer = Answer::without_doubts(&assessment.constraints);
    if answer == Answer::No {
        return format!("no: {request}: {}", refusal(assessment));
    }
    let mut line = format!("{answer}: {request}");
    if let Some(time) = &assessment.time {
        line.push_str(&duration(time));
    }
    line.push_str(&node_shares(request, nodes));
    line.push_str(&sizes(request, &sources.folios));
    if answer == Answer::Slowly
        && let Some(constraint) = super::obstacles::shown(assessment).first()
    {
        line.push_str(&format!("; obstacle: {}", super::constraint::name(constraint)));
    }
    line
}

pub(super) fn pool_line(request: &Request, pool: &PoolRoom, answer: Answer) -> String {
    let how = match answer {
        Answer::Yes => "ready now (mapped, not allocated)".to_owned(),
        _ => {
            let coming = request.size_bytes.saturating_sub(pool.ready_bytes);
            let [ready, coming] = [pool.ready_bytes, coming].map(format_bytes);
            format!("{ready} ready now and {coming} being prepared")
        }
    };
    format!("{answer}: {request} from pool {}, {how}", pool.name)
}

fn duration(time: &TimeEstimate) -> String {
    let range = range(format_duration_ms(time.low_ms), format_duration_ms(time.high_ms));
    format!(" in {range} (one thread)")
}

/// "1.1 to 2.3 s" where both ends have the same unit.
fn range(low: String, high: String) -> String {
    if low == high {
        return low;
    }
    let low = match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same && !unit.contains(' ') => {
            number.to_owned()
        }
        _ => low,
    };
    format!("{low} to {high}")
}

fn node_shares(request: &Request, nodes: &[NodeAccount]) -> String {
    let some: Vec<&NodeAccount> = nodes.iter().filter(|node| node.taken_bytes > 0).collect();
    if request.node.is_some() || nodes.len() < 2 || some.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = some
        .iter()
        .take(MOST_NODES)
        .map(|node| {
            let gib = node.taken_bytes.min(request.size_bytes) as f64 / f64::from(1 << 30);
            format!("node {} ({gib:.1} GiB)", node.node)
        })
        .collect();
    let more = some.len().saturating_sub(MOST_NODES);
    let rest = if more > 0 { format!(" and {more} more nodes") } else { String::new() };
    match shown.split_last() {
        Some((last, [])) => format!(", from {last}{rest}"),
        Some((last, first)) if more == 0 => format!(", from {} and {last}", first.join(", ")),
        _ => format!(", from {}{rest}", shown.join(", ")),
    }
}

/// Share of the best pages that private memory has, by size.
fn sizes(request: &Request, folios: &[FolioSupply]) -> String {
    if request.page != PageSize::Best {
        return String::new();
    }
    let some = folios.iter().filter(|supply| supply.private.bytes > 0);
    let mut shares: Vec<(String, u64)> =
        some.map(|supply| (format_bytes(supply.page_bytes), supply.private.bytes)).collect();
    let all = shares.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let rest = request.size_bytes.saturating_sub(all);
    if rest > 0 {
        shares.push(("base pages".to_owned(), rest));
    }
    let shares =
        shares.into_iter().map(|(size, bytes)| format!("{} in {size}", format_bytes(bytes)));
    format!(": {}", shares.collect::<Vec<_>>().join(", "))
}

/// The worst constraint, and by how much the request exceeds it.
fn refusal(assessment: &Assessment) -> String {
    let Some(constraint) = super::obstacles::shown(assessment).first().copied() else {
        return "the kernel refuses it".to_owned();
    };
    let needed = constraint.needed_bytes.unwrap_or(assessment.request.size_bytes);
    let Some(available) = constraint.available_bytes else {
        return super::constraint::name(constraint);
    };
    let missing = format_bytes(needed.saturating_sub(available));
    if let ConstraintKind::HugePool { .. } | ConstraintKind::NoHugePool { .. } = constraint.kind {
        // The request already names the size of the pages.
        let pool = match available {
            0 => "no pages are reserved".to_owned(),
            some => format!("the pool has {}, {missing} missing", format_bytes(some)),
        };
        return pool + &assessment.pool_growth().as_ref().map_or_else(String::new, grown);
    }
    format!(
        "{} has {}, {missing} missing",
        super::constraint::name(constraint),
        format_bytes(available)
    )
}

fn grown(growth: &PoolGrowth) -> String {
    let now = format!("; {} can be reserved now", format_bytes(growth.now_bytes));
    let (Some(least), Some(most)) = (growth.least_bytes, growth.most_bytes) else { return now };
    let range = range(format_bytes(least), format_bytes(most));
    format!("{now}, {range} after reclaim and compaction")
}
