//! Which Redis: `[store] urls`, `cluster` and `sentinel`.

use super::Compiler;
use crate::config::file;
use crate::config::policy::{RedisServers, Secret};
use crate::config::read::At;
use crate::config::secret::StoreUrl;
use redis::{ConnectionAddr, IntoConnectionInfo};

/// The servers. Where nothing sound is written there is a problem, and what is returned is never used.
pub fn servers(c: &mut Compiler<'_>, store: &file::Store) -> RedisServers {
    let file::Store { place, urls, cluster, sentinel, .. } = store;
    if let Some(at) = sentinel {
        for place in [urls.as_ref().map(|at| &at.place), cluster.as_ref().map(|at| &at.place)].into_iter().flatten() {
            c.findings.problem(
                place,
                "does not go with `sentinel`",
                "leave it out: the sentinels say which server is the master",
            );
        }
        return self::sentinel(c, &at.value);
    }
    let Some(urls) = urls.as_ref().filter(|at| !at.value.is_empty()) else {
        c.findings.missing(place, "urls", "write urls = [\"redis://127.0.0.1:6379\"]");
        return RedisServers::Cluster(Vec::new());
    };
    let mut addresses = fetch(c, &urls.value);
    let clustered = cluster.as_ref().map_or(urls.value.len() > 1, |at| at.value);
    if !clustered {
        if urls.value.len() > 1 {
            let reason = format!("names {} servers, and `cluster` is false", urls.value.len());
            c.findings.problem(&urls.place, reason, "name one server, or nodes of one cluster, or the sentinels in `sentinel`");
        }
        return addresses.pop().map_or_else(|| RedisServers::Cluster(Vec::new()), RedisServers::One);
    }
    for (url, at) in addresses.iter().zip(&urls.value) {
        let Ok(info) = url.expose().into_connection_info() else { continue };
        if info.redis_settings().db() != 0 {
            c.findings.problem(&at.place, "names a database, and a cluster has only number 0", "leave it out of the address");
        }
    }
    // Nodes are told apart by what the cluster calls them, so all of them are logged in at in the same way.
    let kind = |url: &Secret| {
        url.expose().into_connection_info().ok().map(|info| {
            let settings = info.redis_settings();
            let tls = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
            (tls, settings.username().map(str::to_owned), settings.password().map(str::to_owned))
        })
    };
    if addresses.windows(2).any(|pair| kind(&pair[0]) != kind(&pair[1])) {
        let reason = "names nodes of a cluster that differ in TLS, user or password";
        c.findings.problem(&urls.place, reason, "log in at all of them in the same way");
    }
    RedisServers::Cluster(addresses)
}

/// `[store] sentinel`
fn sentinel(c: &mut Compiler<'_>, written: &file::Sentinel) -> RedisServers {
    let file::Sentinel { place, master, urls, login } = written;
    match master {
        None => c.findings.missing(place, "master", "write the name that the sentinels monitor, such as master = \"mymaster\""),
        Some(at) if at.value.trim().is_empty() => {
            c.findings.problem(&at.place, "is empty", "write the name that the sentinels monitor, such as \"mymaster\"");
        }
        Some(_) => {}
    }
    let sentinels = urls.as_ref().map(|at| fetch(c, &at.value)).unwrap_or_default();
    if urls.as_ref().is_none_or(|at| at.value.is_empty()) {
        c.findings.missing(place, "urls", "write urls = [\"redis://127.0.0.1:26379\"], the addresses of the sentinels");
    }
    RedisServers::Sentinel {
        master: master.as_ref().map(|at| at.value.trim().to_owned()).unwrap_or_default(),
        sentinels,
        login: login.as_ref().and_then(|at| at.fetch(c.env, &mut c.findings)),
    }
}

fn fetch(c: &mut Compiler<'_>, urls: &[At<StoreUrl>]) -> Vec<Secret> {
    urls.iter().filter_map(|url| url.fetch(c.env, &mut c.findings)).collect()
}
