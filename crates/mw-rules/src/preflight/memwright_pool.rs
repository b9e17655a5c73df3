//! Memory from a pool of `memwright pool` instead of newly allocated memory.

use mw_model::{
    Answer, Obstacle, ObstacleKind, PageSize, PoolRoom, Preflight, Request, format_bytes,
};

/// The answer if the pool can serve the request.
///
/// # Errors
/// Why the pool cannot serve it. That does not refuse the request: the program then allocates memory
/// from the kernel.
pub fn from_pool(request: &Request, pool: &PoolRoom) -> Result<Preflight, Obstacle> {
    if matches!(request.page, PageSize::Hugetlb(_) | PageSize::Folio(_))
        && request.page != pool.page
    {
        let lift = format!(
            "create a pool with such pages: memwright pool create NAME --huge {}",
            request.page
        );
        return Err(obstacle(format!("pool {} has pages of another size", pool.name), None, lift));
    }
    let requested = request.size_bytes;
    let answer = if requested <= pool.ready_bytes {
        Answer::Yes
    } else if requested <= pool.ready_bytes.saturating_add(pool.coming_bytes) {
        Answer::Slowly
    } else {
        return Err(too_small(requested, pool));
    };
    let [ready, coming] =
        [pool.ready_bytes, requested.saturating_sub(pool.ready_bytes)].map(format_bytes);
    let how = match answer {
        Answer::Yes => "ready now (mapped, not allocated)".to_owned(),
        _ => format!("{ready} ready now and {coming} being prepared"),
    };
    Ok(Preflight {
        request: request.clone(),
        answer,
        summary: format!("{answer}: {request} from pool {}, {how}", pool.name),
        nodes: Vec::new(),
        time: None,
        obstacles: Vec::new(),
        pool_growth: None,
        folios: Vec::new(),
        unseen: Vec::new(),
    })
}

fn too_small(requested: u64, pool: &PoolRoom) -> Obstacle {
    let available = pool.ready_bytes.saturating_add(pool.coming_bytes);
    let lift = match requested.checked_sub(pool.size_bytes).filter(|lacks| *lacks > 0) {
        Some(lacks) => {
            format!("memwright pool grow {} {}M", pool.name, lacks.div_ceil(1 << 20))
        }
        None => "end the programs that lease memory from it, or create another pool".to_owned(),
    };
    obstacle(format!("pool {}", pool.name), Some((requested, available)), lift)
}

fn obstacle(what: String, bytes: Option<(u64, u64)>, lift: String) -> Obstacle {
    let (needed_bytes, available_bytes) = bytes.unzip();
    Obstacle { blocks: false, what, needed_bytes, available_bytes, lift, kind: ObstacleKind::Other }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        from_pool(&request.parse().unwrap(), pool)
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
