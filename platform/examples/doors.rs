//! What a network with doors costs a launch: medians of interleaved launches of `true`, in milliseconds.
//!
//! `doors [ROUNDS] [BACKEND]`

#![expect(clippy::print_stdout, reason = "a measurement is printed")]

use std::time::Instant;

use sbx_platform::door::{Doors, Porter};
use sbx_platform::plan::{Access, Code, Gateway, MountOp, Network, Place, Plan, Rights};
use sbx_platform::{Backend, PlatformError, launch};

/// Holds the doors and serves nobody.
#[derive(Default)]
struct Holder(Vec<Doors>);

impl Porter for Holder {
    fn open(&mut self, doors: Doors) -> std::io::Result<()> {
        self.0.push(doors);
        Ok(())
    }
}

fn plan(network: Network) -> Plan {
    let mut plan = Plan::new("/usr/bin/true", vec!["true".into()]);
    for path in ["/usr", "/lib", "/lib64"].map(std::path::PathBuf::from) {
        match std::fs::read_link(&path) {
            Ok(target) => plan.mounts.push(MountOp::Symlink { target, dest: path }),
            Err(_) => plan.mounts.push(MountOp::Bind {
                source: path.clone(),
                dest: path,
                access: Access::ReadOnly,
                code: Code::Allowed,
            }),
        }
    }
    plan.mounts.push(MountOp::Proc { dest: "/proc".into() });
    plan.mounts.push(MountOp::Dev { dest: "/dev".into() });
    plan.rights.push(Place { path: "/usr".into(), rights: Rights::READ | Rights::LIST | Rights::EXECUTE });
    plan.network = network;
    plan
}

fn main() -> Result<(), PlatformError> {
    sbx_platform::take_over(std::env::args_os());
    let mut words = std::env::args().skip(1);
    let rounds: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or(200);
    let backend = words.next().and_then(|word| Backend::from_name(&word)).unwrap_or(Backend::Native);
    let without = plan(Network::None);
    let with = plan(Network::Gateway(Gateway { ports: vec![80, 443], ..Gateway::default() }));
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (at, plan) in [&without, &with].into_iter().enumerate() {
            let begun = Instant::now();
            let outcome = launch(plan, Some(backend), Some(&mut Holder::default()))?;
            times[at].push(begun.elapsed().as_secs_f64() * 1e3);
            if outcome.end != sbx_platform::End::Exited(0) {
                println!("{:?}", outcome.end);
            }
        }
    }
    let [without, with] = times.map(|mut all| {
        all.sort_by(f64::total_cmp);
        (all[0], all[all.len() / 2])
    });
    println!("{backend}: least and median of {rounds}");
    println!("without doors {:6.2} {:6.2}", without.0, without.1);
    println!("with doors    {:6.2} {:6.2}", with.0, with.1);
    println!("difference    {:6.2} {:6.2}", with.0 - without.0, with.1 - without.1);
    Ok(())
}
