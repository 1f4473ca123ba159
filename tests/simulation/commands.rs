//! The masters' answers to commands that are not about keys, and the counting of commands.

use super::lua::sha1;
use super::master::{Connection, Master, Process};
use super::resp::Reply;

impl Master {
    /// Runs one command of connection `id` immediately and atomically.
    pub fn execute(&self, id: i64, words: &[Vec<u8>], out: &mut Vec<u8>) {
        let mut process = self.process.borrow_mut();
        let Some(process) = process.as_mut() else { return };
        let reply = self.run(process, id, words);
        let resp3 = process.connections.get(&id).is_some_and(|it| it.resp3);
        reply.encode(resp3, out);
    }

    fn run(&self, process: &mut Process, id: i64, words: &[Vec<u8>]) -> Reply {
        let name = upper(words, 0);
        if let Some(reply) = queued(process, id, &name, words) {
            return reply;
        }
        match &name[..] {
            "MULTI" | "EXEC" => self.transaction(process, id, &name),
            "EVAL" | "EVALSHA" => self.eval(process, &name, words),
            "SCRIPT" => self.script(process, words),
            "INFO" => Reply::text(self.info(process)),
            "TIME" => self.time(),
            "HELLO" => hello(process, id),
            "CLIENT" => client(process, id, words),
            "CONFIG" => config(),
            "PING" => Reply::Status("PONG".to_owned()),
            "SELECT" | "AUTH" => Reply::ok(),
            _ => self.on_keys(process, words),
        }
    }

    fn time(&self) -> Reply {
        let micros = self.clock.borrow().micros();
        let part = |number: i64| Reply::text(number.to_string());
        Reply::Array(vec![part(micros / 1_000_000), part(micros % 1_000_000)])
    }

    fn on_keys(&self, process: &mut Process, words: &[Vec<u8>]) -> Reply {
        process.keys.command(self.now_ms(), words).unwrap_or_else(|| {
            // The proxy would take an error for a refusal by the master, which would hide that the
            // simulation is incomplete.
            panic!("masters of a simulation do not know {}", words.join(&b' ').escape_ascii())
        })
    }

    /// Handles `MULTI` and `EXEC`. The commands between them run at one moment.
    fn transaction(&self, process: &mut Process, id: i64, name: &str) -> Reply {
        if name == "MULTI" {
            process.connection(id).queue = Some(Vec::new());
            return Reply::ok();
        }
        let queue = process.connection(id).queue.take().unwrap_or_default();
        Reply::Array(queue.iter().map(|words| self.run(process, id, words)).collect())
    }

    fn eval(&self, process: &mut Process, name: &str, words: &[Vec<u8>]) -> Reply {
        let sha = if name == "EVALSHA" {
            let sha = String::from_utf8_lossy(&words[1]).to_lowercase();
            if !process.loaded.contains(&sha) {
                return Reply::error("NOSCRIPT No matching script. Please use EVAL.");
            }
            sha
        } else {
            match self.scripts.borrow_mut().compile(&words[1]) {
                Ok(sha) => sha,
                Err(why) => return why,
            }
        };
        process.loaded.insert(sha.clone());
        let keys: usize = text(&words[2]).parse().unwrap_or_default();
        let (keys, argv) = words[3..].split_at(keys);
        self.scripts.borrow().run(&sha, keys, argv, |words| {
            // There is one database.
            match &upper(&words, 0)[..] {
                "SELECT" if words[1] == b"0" => Reply::ok(),
                "SELECT" => Reply::error("ERR DB index is out of range"),
                "TIME" => self.time(),
                "COMMAND" => keys_of(&words),
                _ => self.on_keys(process, &words),
            }
        })
    }

    fn script(&self, process: &mut Process, words: &[Vec<u8>]) -> Reply {
        match &upper(words, 1)[..] {
            "LOAD" => match self.scripts.borrow_mut().compile(&words[2]) {
                Ok(sha) => {
                    process.loaded.insert(sha.clone());
                    Reply::text(sha)
                }
                Err(why) => why,
            },
            "FLUSH" => {
                process.loaded.clear();
                Reply::ok()
            }
            other => panic!("masters of a simulation do not know SCRIPT {other}"),
        }
    }

    /// Returns every field that anybody reads, whatever the sections. The uptime is by the wall
    /// clock, as in Redis.
    fn info(&self, process: &mut Process) -> String {
        let now_ms = self.now_ms();
        let mut info = format!(
            "# Server\r\nredis_version:7.2.4\r\nrun_id:{}\r\nuptime_in_seconds:{}\r\n\
             role:master\r\ncluster_enabled:0\r\nmaxmemory_policy:noeviction\r\nevicted_keys:0\r\n\
             aof_enabled:0\r\nmaster_replid:{}\r\nmaster_replid2:{:040}\r\n",
            process.run_id,
            (now_ms - process.started_ms) / 1000,
            process.run_id,
            0,
        );
        let keys = process.keys.len(now_ms);
        if keys > 0 {
            info += &format!("db0:keys={keys},expires=0,avg_ttl=0\r\n");
        }
        info
    }
}

impl Process {
    fn connection(&mut self, id: i64) -> &mut Connection {
        self.connections.get_mut(&id).expect("it is just talking")
    }
}

/// Answers `COMMAND GETKEYS` and `COMMAND GETKEYSANDFLAGS` for commands with one key or none. Flags
/// are only requested for writes.
fn keys_of(words: &[Vec<u8>]) -> Reply {
    let all = ["DEL", "EXISTS", "MGET", "UNLINK"].contains(&&*upper(words, 2));
    let keys = words[3..].iter().take(if all { usize::MAX } else { 1 });
    let keys = keys.cloned().map(Reply::Bulk);
    let with_flags = |key| {
        let flags = ["RW", "access", "update"].map(|flag| Reply::Status(flag.to_owned()));
        Reply::Array(vec![key, Reply::Array(flags.to_vec())])
    };
    Reply::Array(match &*upper(words, 1) {
        "GETKEYS" => keys.collect(),
        "GETKEYSANDFLAGS" => keys.map(with_flags).collect(),
        other => panic!("masters of a simulation do not know COMMAND {other}"),
    })
}

/// Queues a command after `MULTI`.
fn queued(process: &mut Process, id: i64, name: &str, words: &[Vec<u8>]) -> Option<Reply> {
    let queue = process.connection(id).queue.as_mut().filter(|_| name != "EXEC")?;
    queue.push(words.to_vec());
    Some(Reply::Status("QUEUED".to_owned()))
}

fn hello(process: &mut Process, id: i64) -> Reply {
    process.connection(id).resp3 = true;
    let text = |text: &str| Reply::text(text);
    Reply::Map(vec![
        text("server"),
        text("redis"),
        text("version"),
        text("7.2.4"),
        text("proto"),
        Reply::Int(3),
        text("id"),
        Reply::Int(id),
        text("mode"),
        text("standalone"),
        text("role"),
        text("master"),
        text("modules"),
        Reply::Array(Vec::new()),
    ])
}

fn client(process: &mut Process, id: i64, words: &[Vec<u8>]) -> Reply {
    match &upper(words, 1)[..] {
        "ID" => Reply::Int(id),
        "KILL" => {
            let victim = text(&words[3]).parse().ok();
            let victim = victim.and_then(|id: i64| process.connections.get(&id));
            victim.inspect(|connection| connection.kill());
            Reply::Int(i64::from(victim.is_some()))
        }
        "SETNAME" => {
            process.connection(id).name = text(&words[2]);
            Reply::ok()
        }
        "LIST" => Reply::text(clients(process)),
        _ => Reply::ok(),
    }
}

/// The parts that the proxy reads.
fn clients(process: &Process) -> String {
    let line = |(id, it): (&i64, &Connection)| format!("id={id} name={} db=0\n", it.name);
    process.connections.iter().map(line).collect()
}

fn config() -> Reply {
    let words = ["databases", "1", "appendfsync", "everysec", "save", ""];
    Reply::Map(words.into_iter().map(Reply::text).collect())
}

fn upper(words: &[Vec<u8>], at: usize) -> String {
    words.get(at).map(|word| text(word).to_uppercase()).unwrap_or_default()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_script_is_known_by_the_sha1_of_its_text() {
    assert_eq!(sha1(b"return 1"), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
}
