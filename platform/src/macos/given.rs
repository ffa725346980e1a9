//! What Seatbelt gives, by name.
//!
//! Answers for which promises follow from a profile and from how commands are run on macOS. Pure, so that the
//! table in the documentation can be tested anywhere.
//! Invariant: a promise that rests on watching from outside is not given: watching can be outrun.

use crate::backend::Guarantee;
use crate::plan::{Limits, Plan, UnixSockets};

/// The promises that hold for `plan`.
#[must_use]
pub fn given(plan: &Plan) -> Vec<Guarantee> {
    Guarantee::ALL.iter().copied().filter(|guarantee| holds(plan, *guarantee)).collect()
}

fn holds(plan: &Plan, guarantee: Guarantee) -> bool {
    use Guarantee as G;
    let Limits { memory, pids, .. } = &plan.limits;
    match guarantee {
        // Each is an operation of its own, or a part of one that the profile names.
        G::FsRead
        | G::FsWrite
        | G::FsDelete
        | G::FsMetadata
        | G::FsTruncate
        | G::ExecOnly
        | G::ProtectedPaths
        | G::Signals
        | G::Terminals => true,
        // Nothing connects but to the proxy, and nothing listens.
        G::NetNone | G::NetHosts | G::NetListen => true,
        G::SocketsHidden => plan.unix_sockets == UnixSockets::PairsOnly,
        // A limit that is not asked for is not exceeded; one that is, is watched from outside.
        G::FsGlob => !plan.narrowed,
        G::MemoryLimit => memory.is_none(),
        G::PidsLimit => pids.is_none(),
        // Whether something exists can be told from the error; processes can be listed; named semaphores are
        // shared with the host; scratch has no size of its own; no call is filtered by number.
        G::FsHidden
        | G::PidHidden
        | G::IpcHidden
        | G::PrivateTmp
        | G::SyscallFilter
        // Programs that know nothing of proxies have no network, and there is no loopback of one's own.
        | G::NetPorts
        | G::NetNames
        | G::Loopback
        // Processes are found by looking, and one that forks fast enough can be missed.
        | G::Teardown
        | G::TeardownKilled => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_are_only_watched_are_not_promised() {
        let mut plan = Plan::new("/bin/ls", vec!["ls".into()]);
        assert!(given(&plan).contains(&Guarantee::MemoryLimit));
        plan.limits.memory = Some(1 << 20);
        assert!(!given(&plan).contains(&Guarantee::MemoryLimit));
        for never in [Guarantee::FsHidden, Guarantee::Teardown, Guarantee::SyscallFilter, Guarantee::Loopback]
        {
            assert!(!given(&plan).contains(&never));
        }
    }
}
