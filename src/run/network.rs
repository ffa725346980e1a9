//! The network side of a launch: its gateway, and what the plan must know of it.

use super::launch::RunError;
use super::secrets::secrets;
use crate::audit::Sink;
use crate::decide::Denial;
use crate::manifest::Proxy;
use crate::net::{BUNDLES, Fetcher, Further, Gateway, Settings};
use crate::plan::Outlet;
use crate::policy::Policy;
use sbx_platform::door::{Doors, Porter, Way};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);
/// How the files with a launch's certificates are called.
const BUNDLE: &str = "sbx-ca-";

/// Serves the network of one launch while it lasts.
#[derive(Debug)]
pub struct Network {
    gateway: Gateway,
    bundle: Option<Bundle>,
    placeholders: Vec<(String, String)>,
}

/// A file that is gone when this is.
#[derive(Debug)]
struct Bundle {
    path: PathBuf,
    /// Until it is filled.
    empty: Option<File>,
}

impl Drop for Bundle {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Network {
    /// Prepares the network a policy holds; none when it holds none, and then nothing is made.
    pub(super) fn of(policy: &Policy, audit: &Arc<dyn Sink>) -> Result<Option<Self>, RunError> {
        if !Gateway::is_needed(policy) {
            return Ok(None);
        }
        let (settings, placeholders) = settings(policy, audit)?;
        let gateway = Gateway::new(policy, settings).map_err(RunError::Network)?;
        let bundle = gateway.inspects().then(Bundle::new).transpose().map_err(RunError::Network)?;
        Ok(Some(Self { gateway, bundle, placeholders }))
    }

    /// What the plan must know.
    pub(super) fn outlet(&self) -> Outlet {
        let bundle = self.bundle.as_ref().map(|bundle| bundle.path.clone());
        Outlet::new(bundle, self.placeholders.clone())
    }

    /// What was refused so far, each once.
    #[must_use]
    pub fn refused(&self) -> Vec<Denial> {
        self.gateway.refused()
    }

    /// Ends serving, beside whatever else is to be done; what was refused until now.
    pub(super) fn stop(&self) -> Vec<Denial> {
        self.gateway.stop();
        self.gateway.refused()
    }
}

/// Requests that sbx makes itself with an agent's authority, its secrets and the caller's proxy.
///
/// # Errors
/// When a secret or the proxy cannot be read.
pub fn fetcher(policy: &Policy, audit: &Arc<dyn Sink>) -> Result<Fetcher, RunError> {
    let (settings, _) = settings(policy, audit)?;
    Fetcher::new(policy, settings).map_err(RunError::Network)
}

/// What a gateway is made with, and what stands inside for the secrets in it.
fn settings(policy: &Policy, audit: &Arc<dyn Sink>) -> Result<(Settings, Vec<(String, String)>), RunError> {
    if policy.sections().env.iter().any(|rule| rule.inject.is_some()) {
        sbx_platform::refuse_dumps().map_err(RunError::Network)?;
    }
    let secrets = secrets(policy)?;
    let placeholders =
        secrets.iter().map(|(name, secret)| (name.clone(), secret.placeholder.clone())).collect();
    let settings = Settings::default()
        .sink(audit.clone())
        .secrets(secrets.into_iter().map(|(_, secret)| secret).collect())
        .outer_proxy(outer_proxy(policy));
    Ok((settings, placeholders))
}

impl Porter for Network {
    /// The plan names the file; what is in it is needed only when the command starts.
    fn begun(&mut self) -> io::Result<()> {
        self.gateway.begun()?;
        match (&mut self.bundle, self.gateway.trust()?) {
            (Some(bundle), Some(own)) => bundle.fill(own),
            _ => Ok(()),
        }
    }

    fn open(&mut self, doors: Doors) -> io::Result<()> {
        self.begun()?;
        match doors.way {
            // The view stands, and what it shows needs no name any more: nothing is left, however this ends.
            Way::Redirected | Way::PerPort => self.bundle = None,
            // The command reads the file itself.
            Way::OnBehalf => {}
        }
        self.gateway.open(doors)
    }
}

/// The caller's own proxy, when the configuration says to use one.
fn outer_proxy(policy: &Policy) -> Option<Further> {
    let variable = |names: [&str; 2]| names.iter().find_map(|name| std::env::var(name).ok());
    let (tunnels, requests) = match policy.proxy()? {
        Proxy::Environment => {
            let named = |names| variable(names).filter(|url| !url.is_empty());
            let (https, http) = (named(["HTTPS_PROXY", "https_proxy"]), named(["http_proxy", "HTTP_PROXY"]));
            (https.clone().or_else(|| http.clone())?, http.or(https)?)
        }
        Proxy::Url(url) => (url.clone(), url.clone()),
    };
    let without = variable(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    Some(Further { tunnels, requests, without })
}

/// Removes the bundles of launches that were killed.
fn sweep(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix(BUNDLE).and_then(|rest| rest.split_once('-')?.0.parse::<i32>().ok());
        let others = |number: &i32| u32::try_from(*number) != Ok(std::process::id());
        if number.filter(others).is_some_and(super::why::is_over) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

impl Bundle {
    /// An empty one, where the caller alone can put files, or where everybody can.
    fn new() -> io::Result<Self> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
        let dirs = runtime.into_iter().chain([std::env::temp_dir()]);
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for dir in dirs {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = dir.join(format!("{BUNDLE}{}-{number}.pem", std::process::id()));
            // Left behind by a launch that was killed and had the same number.
            let _ = std::fs::remove_file(&path);
            match OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path) {
                Ok(file) => {
                    let path = std::fs::canonicalize(&path).unwrap_or(path);
                    return Ok(Self { path, empty: Some(file) });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Writes the certificates to trust inside: the launch's own authority, and those of the system.
    fn fill(&mut self, own: &str) -> io::Result<()> {
        let Some(mut file) = self.empty.take() else { return Ok(()) };
        file.write_all(own.as_bytes())?;
        if let Some(mut system) = BUNDLES.iter().find_map(|path| File::open(path).ok()) {
            io::copy(&mut system, &mut file)?;
        }
        self.path.parent().into_iter().for_each(sweep);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_dead_left_is_swept() {
        let dir = std::env::temp_dir().join(format!("sbx-bundles-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let own = format!("{BUNDLE}{}-7.pem", std::process::id());
        for name in ["sbx-ca-999999999-0.pem", "sbx-ca-1-0.pem", "sbx-ca-x-0.pem", &own] {
            std::fs::write(dir.join(name), "").unwrap();
        }
        sweep(&dir);
        let left = |name: &str| dir.join(name).exists();
        assert!(!left("sbx-ca-999999999-0.pem"));
        assert!(left("sbx-ca-1-0.pem") && left("sbx-ca-x-0.pem") && left(&own));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
