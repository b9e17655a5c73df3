//! Words of an assessed request: the summary, the obstacles and their remedies, as every format has them.

mod constraint;
mod obstacles;
mod summary;

use mw_model::{Answer, Assessment, PoolRoom, Preflight, Request};
pub use obstacles::obstacle;

/// The assessment in words.
pub fn describe(assessment: &Assessment) -> Preflight {
    Preflight {
        request: assessment.request.clone(),
        answer: assessment.answer(),
        summary: summary::line(assessment),
        nodes: assessment.nodes.clone(),
        time: assessment.time.clone(),
        obstacles: obstacles::all(assessment),
        pool_growth: assessment.pool_growth(),
        folios: assessment.sources.folios.clone(),
        unseen: assessment.unread(),
        dev_shm_bytes: assessment.dev_shm_bytes,
    }
}

/// The answer of a pool of memwright in words.
pub fn describe_pool(request: &Request, pool: &PoolRoom, answer: Answer) -> Preflight {
    Preflight {
        request: request.clone(),
        answer,
        summary: summary::pool_line(request, pool, answer),
        nodes: Vec::new(),
        time: None,
        obstacles: Vec::new(),
        pool_growth: None,
        folios: Vec::new(),
        unseen: Vec::new(),
        dev_shm_bytes: None,
    }
}
