//! HTTP on a unix socket, as a transport of ureq. Its traits are outside ureq's promise of stable names.

use std::io::{Error as IoError, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Error, Timeout};

/// Connects to one socket, whatever host an address names.
#[derive(Debug)]
pub(super) struct UnixConnector(pub PathBuf);

impl Connector for UnixConnector {
    type Out = UnixTransport;

    fn connect(
        &self,
        details: &ConnectionDetails,
        _: Option<()>,
    ) -> Result<Option<Self::Out>, Error> {
        let sizes = details.config;
        Ok(Some(UnixTransport {
            stream: UnixStream::connect(&self.0)?,
            buffers: LazyBuffers::new(sizes.input_buffer_size(), sizes.output_buffer_size()),
        }))
    }
}

/// There is no name to look up.
#[derive(Debug)]
pub(super) struct NoNames;

impl Resolver for NoNames {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        Ok(self.empty())
    }
}

/// An open socket.
#[derive(Debug)]
pub(super) struct UnixTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream
            .set_write_timeout(timeout.not_zero().map(|t| *t))?;
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        self.stream.write_all(output).map_err(late)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream
            .set_read_timeout(timeout.not_zero().map(|t| *t))?;
        let input = self.buffers.input_append_buf();
        let amount = self.stream.read(input).map_err(late)?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// Every question has a connection of its own.
    fn is_open(&mut self) -> bool {
        false
    }
}

/// What a socket says whose time is over.
fn late(error: IoError) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(Timeout::Global),
        _ => Error::Io(error),
    }
}
