//! The program as a user runs it: a process in a directory of its own, with only the environment it is given.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reqwest::header::HeaderMap;
use serde_json::Value;

/// The root of the repository.
pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

const PATIENCE: Duration = Duration::from_secs(60);

type Lines = Arc<Mutex<Vec<String>>>;

/// `tollgate` with these arguments and variables, and nothing else of this process's environment but the path.
pub fn tollgate(args: &[&str], variables: &[(&str, &str)], directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(args).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("TMPDIR", directory).envs(variables.iter().copied()).current_dir(directory);
    command
}

/// Runs to the end: exit code, standard output, standard error.
pub fn run(args: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let output = tollgate(args, variables, Path::new(ROOT)).stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A running gateway. Dropping it kills exactly this process.
pub struct Running {
    child: Child,
    /// Where it runs; its temporary directory too.
    pub directory: tempfile::TempDir,
    out: Lines,
    log: Lines,
    /// `http://127.0.0.1:PORT`
    pub url: String,
    /// The same of the operators' listener of a demo.
    pub admin: String,
    client: reqwest::Client,
}

impl Running {
    /// `tollgate demo` on a free port.
    pub fn demo(more: &[&str]) -> Self {
        let mut running = Self::spawn(&[&["demo", "--listen", "127.0.0.1:0", "--print-url"], more].concat(), &[]);
        running.admin = wait(&running.out, |line| line.strip_prefix("admin ").map(str::to_owned), &running.log);
        running.url = wait(&running.out, |line| line.strip_prefix("gateway ").map(str::to_owned), &running.log);
        running
    }

    /// `tollgate serve` on a free port.
    pub fn serve(args: &[&str], variables: &[(&str, &str)]) -> Self {
        let listen = [("TOLLGATE_SERVER__LISTEN", "127.0.0.1:0")];
        let mut running = Self::spawn(&[&["serve"], args].concat(), &[&listen, variables].concat());
        let address = |line: &str| {
            let line: Value = serde_json::from_str(line).ok()?;
            let text = |field: &str| line[field].as_str().map(str::to_owned);
            (line["message"] == "serving").then(|| Some((text("address")?, text("admin"))))?
        };
        let (address, admin) = wait(&running.log, address, &running.log);
        running.url = format!("http://{address}");
        running.admin = admin.map(|admin| format!("http://{admin}")).unwrap_or_default();
        running
    }

    /// Any command that goes on.
    pub fn spawn(args: &[&str], variables: &[(&str, &str)]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = tollgate(args, variables, directory.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let (out, log) = (follow(child.stdout.take().expect("piped")), follow(child.stderr.take().expect("piped")));
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { child, directory, out, log, url: String::new(), admin: String::new(), client }
    }

    /// A line of its standard output, as soon as there is one that `find` takes.
    pub fn said<T>(&self, find: impl Fn(&str) -> Option<T>) -> T {
        wait(&self.out, find, &self.log)
    }

    /// The access log's lines, as soon as there are so many; they follow the answers.
    pub fn access_log(&self, at_least: usize) -> Vec<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = self.log.lock().clone();
            let lines = text.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let lines: Vec<_> = lines.filter(|line| line["target"] == "access").collect();
            if lines.len() >= at_least {
                return lines;
            }
            assert!(Instant::now() < deadline, "{} lines: {text:#?}", lines.len());
            pause();
        }
    }

    /// A GET: status and body.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let reply = self.client.get(format!("{}{path}", self.url)).send().await.expect("an answer");
        (reply.status().as_u16(), reply.text().await.expect("a body"))
    }

    /// A POST of JSON with these headers: status, headers and body.
    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, HeaderMap, Value) {
        let mut request = self.client.post(format!("{}{path}", self.url)).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let reply = request.body(body.to_owned()).send().await.expect("an answer");
        let (status, headers) = (reply.status().as_u16(), reply.headers().clone());
        let text = reply.text().await.expect("a body");
        (status, headers, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// The same, again and again while the books of the last answer are not closed: they are just after its last byte, and until then
    /// its hold stands in the way.
    pub async fn post_when_settled(&self, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, HeaderMap, Value) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.post(path, headers, body).await;
            if answer.2["error"]["code"] != "budget_in_flight" {
                return answer;
            }
            assert!(Instant::now() < deadline, "never settled: {}", answer.2);
        }
    }

    /// A line of its log, as soon as there is one that `find` takes.
    pub fn logged<T>(&self, find: impl Fn(&str) -> Option<T>) -> T {
        wait(&self.log, find, &self.log)
    }

    /// Everything it has logged so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().clone()
    }

    /// Sends it a signal, such as `HUP`.
    pub fn signal(&self, name: &str) {
        let kill = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().expect("kill");
        assert!(kill.success(), "the process is still there");
    }

    /// Ends it with SIGTERM and waits; gives back its directory.
    pub fn terminate(mut self) -> (ExitStatus, tempfile::TempDir) {
        self.signal("TERM");
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end: {:#?}", self.log.lock());
            pause();
        };
        let directory = std::mem::replace(&mut self.directory, tempfile::tempdir().expect("a directory"));
        (status, directory)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "another process is waited for, with a deadline; no time has to pass for a test to hold"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

fn follow(pipe: impl Read + Send + 'static) -> Lines {
    let lines = Lines::default();
    let into = Arc::clone(&lines);
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            into.lock().push(line);
        }
    });
    lines
}

fn wait<T>(lines: &Lines, find: impl Fn(&str) -> Option<T>, log: &Lines) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = lines.lock().iter().find_map(|line| find(line)) {
            return found;
        }
        assert!(Instant::now() < deadline, "it never said so; its log: {:#?}", log.lock());
        pause();
    }
}
