//! Memory from a pool of memwright's, in place of new memory.

use mw_model::{Answer, Obstacle, PageKind, PoolRoom, Preflight, Request, format_bytes};

/// The answer where the pool can serve the request; else what keeps it from that.
///
/// # Errors
/// The obstacle, which blocks nothing: a program that the pool cannot serve has memory the ordinary
/// way.
pub fn from_pool(request: &Request, pool: &PoolRoom) -> Result<Preflight, Obstacle> {
    if let PageKind::Hugetlb(_) = request.page
        && request.page != pool.page
    {
        let lift = "make a pool of such pages: memwright pool create NAME --huge 2M or 1G";
        return Err(obstacle(format!("pool {} has other pages", pool.name), None, lift.to_owned()));
    }
    let asked = request.size_bytes;
    let answer = match () {
        () if asked <= pool.ready_bytes => Answer::Yes,
        () if asked <= pool.ready_bytes.saturating_add(pool.coming_bytes) => Answer::Slowly,
        () => return Err(too_small(asked, pool)),
    };
    let [ready, coming] =
        [pool.ready_bytes, asked.saturating_sub(pool.ready_bytes)].map(format_bytes);
    let how = match answer {
        Answer::Yes => "ready now: a mapping, no allocation".to_owned(),
        _ => format!("of which {ready} is ready and {coming} on its way"),
    };
    Ok(Preflight {
        request: request.clone(),
        answer,
        summary: format!("{answer}: {request} from pool {}, {how}", pool.name),
        nodes: Vec::new(),
        time: None,
        obstacles: Vec::new(),
        unseen: Vec::new(),
    })
}

fn too_small(asked: u64, pool: &PoolRoom) -> Obstacle {
    let had = pool.ready_bytes.saturating_add(pool.coming_bytes);
    let lift = match asked.checked_sub(pool.size_bytes).filter(|lacks| *lacks > 0) {
        Some(lacks) => {
            format!("memwright pool grow {} {}M", pool.name, lacks.div_ceil(1 << 20))
        }
        None => "end the programs that have memory of it, or make another pool".to_owned(),
    };
    obstacle(format!("pool {}", pool.name), Some((asked, had)), lift)
}

fn obstacle(what: String, bytes: Option<(u64, u64)>, lift: String) -> Obstacle {
    let (needed_bytes, had_bytes) = bytes.unzip();
    Obstacle { blocks: false, what, needed_bytes, had_bytes, lift }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn pool(ready: u64, coming: u64) -> PoolRoom {
        PoolRoom {
            name: "db".to_owned(),
            page: PageKind::Hugetlb(2 << 20),
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
        let said = "yes: 8 GiB locked from pool db, ready now: a mapping, no allocation";
        assert_eq!(answer.summary, said);
        let answer = ask("8G,huge=2M", &pool(3, 9)).unwrap();
        let said = "slowly: 8 GiB on 2 MiB huge pages from pool db, of which 3 GiB is ready and 5 \
                    GiB on its way";
        assert_eq!((answer.answer, answer.summary.as_str()), (Answer::Slowly, said));
    }

    #[test]
    fn what_the_pool_cannot_serve_is_said_with_what_lifts_it() {
        let small = ask("20G", &pool(16, 0)).unwrap_err();
        assert_eq!((small.needed_bytes, small.had_bytes), (Some(20 * GIB), Some(16 * GIB)));
        assert_eq!(small.lift, "memwright pool grow db 4096M");
        let used = ask("16G", &pool(1, 2)).unwrap_err();
        assert!(used.lift.starts_with("end the programs"));
        assert!(ask("1G,huge=1G", &pool(16, 0)).unwrap_err().what.contains("other pages"));
        assert!([small, used].iter().all(|obstacle| !obstacle.blocks));
        let endless = PoolRoom { coming_bytes: u64::MAX, ..pool(16, 0) };
        assert_eq!(ask("20G", &endless).unwrap().answer, Answer::Slowly);
    }
}
