//! Questions that are not measured: one connection each.

use crate::load::Reader;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// `GET`: status and body.
pub async fn get(address: SocketAddr, path: &str) -> Result<(u16, String), String> {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n")).await
}

/// `POST` of JSON with further headers, each `name: value`.
pub async fn post(address: SocketAddr, path: &str, headers: &[String], body: &str) -> Result<(u16, String), String> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n{headers}");
    exchange(address, &format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await
}

async fn exchange(address: SocketAddr, request: &str) -> Result<(u16, String), String> {
    let work = async {
        let mut socket = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        socket.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
        let mut reader = Reader::default();
        let status = reader.read(&mut socket, |_, _| {}).await?;
        Ok((status, String::from_utf8_lossy(&reader.body).into_owned()))
    };
    tokio::time::timeout(PATIENCE, work).await.map_err(|_| format!("{address} does not answer"))?
}
