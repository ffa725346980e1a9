//! The doors of one launch, each with what serves it.
//!
//! Answers for accepting, and for how many connections there may be at one time. It leaves each connection to the flow
//! and the proxy.
//! Invariant: what is not a connection of this launch is reset.

use super::bounds;
use super::flow::reset;
use super::names::{Datagrams, Stub};
use super::service::Service;
use sbx_platform::door::{Destinations, Doors, Inward};
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Begins serving every door.
pub(super) fn start(service: Arc<Service>, doors: Doors, published: Vec<TcpListener>) -> io::Result<()> {
    let slots = Arc::new(Semaphore::new(connections()));
    let destinations: Arc<dyn Destinations> = Arc::from(doors.destinations);
    let elsewhere = service.outer_proxy.is_some() || !service.dials;
    let stub = Stub::new(
        service.authority.clone(),
        service.report.clone(),
        service.resolver.clone(),
        service.table.clone(),
        elsewhere,
    );
    for socket in doors.names {
        tokio::spawn(stub.clone().serve(Datagrams::new(socket)?));
    }
    let name_slots = Arc::new(Semaphore::new(bounds::NAME_STREAMS));
    for listener in doors.name_streams {
        let (stub, destinations) = (stub.clone(), destinations.clone());
        accept(listener, name_slots.clone(), move |stream| {
            let (stub, ours) = (stub.clone(), destinations.of(stream.as_fd()).is_some());
            async move {
                if ours {
                    stub.serve_stream(stream).await;
                } else {
                    reset(stream);
                }
            }
        })?;
    }
    for listener in doors.streams {
        let (service, destinations) = (service.clone(), destinations.clone());
        accept(listener, slots.clone(), move |stream| {
            let (service, aimed) = (service.clone(), destinations.of(stream.as_fd()));
            async move {
                match aimed {
                    Some(to) => service.serve_flow(stream, to.ip(), to.port()).await,
                    None => reset(stream),
                }
            }
        })?;
    }
    if let Some(listener) = doors.proxy {
        let service = service.clone();
        accept(listener, slots.clone(), move |stream| {
            // Without a network of its own the door stands on the host, where anybody can find it.
            let (service, ours) = (service.clone(), destinations.of(stream.as_fd()).is_some());
            async move {
                if ours {
                    service.serve_proxy(stream).await;
                } else {
                    reset(stream);
                }
            }
        })?;
    }
    if let Some(inward) = doors.inward {
        let inward: Arc<dyn Inward> = Arc::from(inward);
        for listener in published {
            let (service, inward) = (service.clone(), inward.clone());
            let port = listener.local_addr()?.port();
            accept(listener, slots.clone(), move |stream| {
                let (service, inward) = (service.clone(), inward.clone());
                async move { service.let_in(stream, inward, port).await }
            })?;
        }
    }
    Ok(())
}

/// Serves a listener; what it cannot serve yet waits in the kernel.
fn accept<F, W>(listener: TcpListener, slots: Arc<Semaphore>, serve: F) -> io::Result<()>
where
    F: Fn(TcpStream) -> W + Send + 'static,
    W: Future<Output = ()> + Send + 'static,
{
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    tokio::spawn(async move {
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let serving = serve(stream);
                    tokio::spawn(async move {
                        serving.await;
                        drop(slot);
                    });
                }
                // No descriptor is free, or the peer is gone: others may end meanwhile.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            }
        }
    });
    Ok(())
}

/// How many connections there are descriptors for.
fn connections() -> usize {
    let text = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    let files = line.and_then(|line| line.split_whitespace().next()).and_then(|soft| soft.parse().ok());
    let files: usize = files.unwrap_or(256);
    let room = files.saturating_sub(bounds::OTHER_FILES) / bounds::FILES_PER_CONNECTION;
    room.clamp(8, bounds::CONNECTIONS)
}
