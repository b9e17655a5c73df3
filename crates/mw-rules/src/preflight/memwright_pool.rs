//! Memory from a pool of `memwright pool` instead of newly allocated memory.

use mw_model::{Answer, Constraint, ConstraintEffect, ConstraintKind, PageSize, PoolRoom, Request};

/// The answer if the pool can serve the request.
///
/// # Errors
/// Why the pool cannot serve it. That does not refuse the request: the program then allocates memory
/// from the kernel.
pub fn from_pool(request: &Request, pool: &PoolRoom) -> Result<Answer, Box<Constraint>> {
    let informs = |kind, needed: Option<u64>, available: Option<u64>| {
        Box::new(Constraint::new(ConstraintEffect::Informs, kind, needed, available))
    };
    let name = pool.name.clone();
    if matches!(request.page, PageSize::Hugetlb(_) | PageSize::Folio(_))
        && request.page != pool.page
    {
        return Err(informs(ConstraintKind::OtherPoolPages { pool: name }, None, None));
    }
    let (requested, all) = (request.size_bytes, pool.ready_bytes.saturating_add(pool.coming_bytes));
    if requested <= pool.ready_bytes {
        Ok(Answer::Yes)
    } else if requested <= all {
        Ok(Answer::Slowly)
    } else {
        let kind = ConstraintKind::MemwrightPool { pool: name, size_bytes: pool.size_bytes };
        Err(informs(kind, Some(requested), Some(all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{Obstacle, Preflight};
    use mw_render::preflight_words::{describe_pool, obstacle};

    const GIB: u64 = 1 << 30;

    fn pool(ready: u64, coming: u64) -> PoolRoom {
        PoolRoom {
            name: "db".to_owned(),
            page: PageSize::Hugetlb(2 << 20),
            size_bytes: 16 * GIB,
            ready_bytes: ready * GIB,
            coming_bytes: coming * GIB,
        }
    }

    fn ask(request: &str, pool: &PoolRoom) -> Result<Preflight, Obstacle> {
        let request: Request = request.parse().unwrap();
        match from_pool(&request, pool) {
            Ok(answer) => Ok(describe_pool(&request, pool, answer)),
            Err(constraint) => Err(obstacle(&request, &constraint)),
        }
    }

    #[test]
    fn what_is_ready_is_a_mapping_and_what_is_coming_takes_a_while() {
        let answer = ask("8G,lock", &pool(8, 0)).unwrap();
        assert_eq!(answer.answer, Answer::Yes);
        let said = "yes: 8 GiB locked from pool db, ready now (mapped, not allocated)";
        assert_eq!(answer.summary, said);
        let answer = ask("8G,huge=2M", &pool(3, 9)).unwrap();
        let said = "slowly: 8 GiB on 2 MiB huge pages from pool db, 3 GiB ready now and 5 GiB being \
                    prepared";
        assert_eq!((answer.answer, answer.summary.as_str()), (Answer::Slowly, said));
    }

    #[test]
    fn what_the_pool_cannot_serve_is_said_with_what_lifts_it() {
        let small = ask("20G", &pool(16, 0)).unwrap_err();
        assert_eq!((small.needed_bytes, small.available_bytes), (Some(20 * GIB), Some(16 * GIB)));
        assert_eq!(small.lift, "memwright pool grow db 4096M");
        let used = ask("16G", &pool(1, 2)).unwrap_err();
        assert!(used.lift.starts_with("end the programs"));
        assert!(ask("1G,huge=1G", &pool(16, 0)).unwrap_err().what.contains("another size"));
        assert!([small, used].iter().all(|obstacle| !obstacle.blocks));
        let endless = PoolRoom { coming_bytes: u64::MAX, ..pool(16, 0) };
        assert_eq!(ask("20G", &endless).unwrap().answer, Answer::Slowly);
    }
}
