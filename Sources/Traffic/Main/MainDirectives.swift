package import Language

/// The main context and `events` (nginx: core and event modules).
package enum Main: Feature {
  package static let chapter = Chapter.main

  package static let directives: [DirectiveEntry] = [
    .local(
      "include", [.main, .events, .http, .server, .location, .upstream, .stream, .streamServer, .streamUpstream],
      .words(1...1, "FILE | PATTERN"),
      "Includes another file; relative names are relative to the main file's folder.", repeatable: true,
      example: "include conf.d/*.conf;"),
    .local(
      "user", .main, .words(1...2, "USER [GROUP]"), "nobody",
      "The user that root switches to after it has opened sockets, logs and keys; `user root;` keeps root.",
      example: "user www-data;"),
    .local(
      "sandbox", .main, .oneOf(SandboxSettings.allCases.map(\.rawValue)), "on",
      "What the process may do: `landlock` restricts the files that it opens, `seccomp` its system calls, `on` both.",
      example: "sandbox on;"),
    .local(
      "worker_processes", .main, .words(1...1, "NUMBER | auto"), "1",
      "The number of event loops; `auto` is one for each usable core.", example: "worker_processes auto;", trust: .none),
    .local(
      "worker_rlimit_nofile", .main, .number(1...1_048_576),
      "The limit of open files; without it, sallyport raises the soft limit as needed.",
      example: "worker_rlimit_nofile 65536;", trust: .none),
    .local(
      "worker_rlimit_core", .main, .size, "0",
      "The maximum size of a core file, which would contain keys and passwords.",
      example: "worker_rlimit_core 500m;"),
    .local(
      "worker_shutdown_timeout", .main, .milliseconds,
      "How long a drain, or after a reload the connections of the replaced configuration, may last before they are closed. Without it, there is no limit.",
      example: "worker_shutdown_timeout 30s;", trust: .none),
    .local(
      "pid", .main, .words(1...1, "FILE | off"), "", "The file that holds the process id while the daemon runs.",
      example: "pid /run/sallyport.pid;", trust: .none),
    .local(
      "events", .main, .block(0...0, ""), "Settings of the event loop.", example: "events { worker_connections 4096; }",
      trust: .none),
    .local(
      "worker_connections", .events, .number(1...1_048_576), "512",
      "The maximum number of connections of a worker, of all kinds.", example: "worker_connections 4096;", trust: .none),
    .local(
      "http", .main, .block(0...0, ""), "The HTTP servers.",
      example: "http { server { listen 80; return 301 https://$host$request_uri; } }", trust: .told),
    .inert("env", .main, .environmentName, because: "all variables of the environment are kept"),
    .inert("daemon", .main, because: "sallyport stays in the foreground; the service manager does the rest"),
    .inert("master_process", .main, because: "workers are threads of one process"),
    .inert("lock_file", .main, because: "workers need no lock to accept"),
    .inert("timer_resolution", .main, because: "time is read once for each batch of events"),
    .inert("pcre_jit", .main, because: "regular expressions are compiled to machine code where PCRE2 can"),
    .inert(
      "worker_cpu_affinity", .main,
      because: "a worker has no thread of its own; bind the process: CPUAffinity= of systemd, or taskset"),
    .inert(
      "ssl_object_cache_inheritable", .main, .flag,
      because: "a reload reads all certificates, keys and lists again, and keeps what is equal"),
    .inert("thread_pool", .main, because: "no request waits for a disk"),
    .inert("debug_points", .main, because: "sallyport has no debug points"),
    .inert("use", .events, because: "the event loop always uses epoll"),
    .inert("multi_accept", .events, because: "a worker accepts what is waiting"),
    .inert("accept_mutex", .events, because: "each worker has a socket of its own"),
    .inert("accept_mutex_delay", .events, because: "each worker has a socket of its own"),
    .inert("worker_aio_requests", .events, because: "no request waits for a disk"),
  ]
}
